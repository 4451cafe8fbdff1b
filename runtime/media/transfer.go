package media

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

const (
	// PartSize is the size of a part that is sent to S3, and the most that an upload buffers
	// of a file. S3 accepts parts of minPart and more; only the last one may be smaller.
	PartSize = 16 << 20
	// maxParts is the maximum number of parts of an S3 object.
	maxParts = 10_000
	// MaxObject is the size of the largest object that can be stored in parts of PartSize.
	MaxObject = maxParts * PartSize
	// inlineLimit is how much every upload may buffer. To buffer more, up to a part, it
	// acquires a slot of Config.UploadMemory.
	inlineLimit = 1 << 20
	// maxEmptyReads is how many reads in a row may return nothing before fill fails.
	maxEmptyReads = 100
)

// transfer moves the bytes of one file from a request to the object store. Upload (one
// request) and Resumable (many requests) stand on it.
//
//	request --fill--> buffer --sendPart (full parts)--> object store
//	                         \-putWhole (small files)--/
//
// A transfer owns the slots that it has acquired. close releases them once, together with
// the buffer. A transfer is not safe for concurrent use.
type transfer struct {
	service  *Service
	account  account.Account
	scope    Scope
	id       uuid.UUID
	sizeHint int64 // size that the client declared, 0 = none

	buffer   buffer // bytes received and not sent
	digest   digest // of the bytes received
	size     int64  // bytes received
	mimeType string // empty until enough bytes have been received to detect it

	reservation *reservation
	multipart   Multipart // nil until the first part is sent
	// writtenKeys are the keys that the object store may have an object of.
	writtenKeys []string
	// writeUncertain is set when a write to the object store failed with an unknown
	// outcome: the object may still appear after it has been removed.
	writeUncertain bool

	uploadSlot slot
	partSlot   slot      // held while the buffer may exceed inlineLimit
	imageSlot  ImageSlot // nil = none
	rate       rateGuard
}

// newTransfer returns a transfer that owns nothing yet.
func (s *Service) newTransfer(a account.Account, reservation *reservation, sizeHint int64) *transfer {
	return &transfer{service: s, account: a, scope: reservation.scope, id: reservation.itemID, sizeHint: sizeHint,
		digest: s.newDigest(), reservation: reservation}
}

// newReservation returns the reservation of an upload that has no row yet.
func (s *Service) newReservation(itemID uuid.UUID, scope Scope) *reservation {
	return &reservation{store: s.store, now: s.now, itemID: itemID, scope: scope, lease: s.cfg.UploadLease}
}

// acquireUploadSlot waits for an upload slot.
func (t *transfer) acquireUploadSlot(ctx context.Context) (err error) {
	t.uploadSlot, err = t.service.limits.acquire(ctx, t.service.limits.uploads, t.scope.AccountID)
	return err
}

// acquirePartSlot waits for the memory of a part, unless the transfer has it.
func (t *transfer) acquirePartSlot(ctx context.Context) (err error) {
	if t.partSlot.held() {
		return nil
	}
	t.partSlot, err = t.service.limits.acquire(ctx, t.service.limits.partMemory, t.scope.AccountID)
	return err
}

// close releases the buffer and the slots.
func (t *transfer) close() {
	t.releaseImageSlot()
	t.buffer.release()
	t.partSlot.release()
	t.uploadSlot.release()
}

// fill reads until the buffer holds more than a part (false) or the file has ended (true).
// It calls onRead after each read except the last.
func (t *transfer) fill(ctx context.Context, file io.Reader, onRead func() error) (ended bool, err error) {
	for empty := 0; t.buffer.size <= PartSize; {
		if t.buffer.size >= inlineLimit {
			if err := t.acquirePartSlot(ctx); err != nil {
				return false, err
			}
		}
		t.rate.beginRead()
		data, err := t.buffer.read(file)
		slow := t.rate.endRead(len(data))
		t.digest.write(data, t.buffer.size)
		if t.size += int64(len(data)); t.size > t.account.MaxUploadSize {
			return false, tooLarge(t.account)
		}
		if slow != nil {
			return false, slow
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if len(data) > 0 {
			empty = 0
		} else if empty++; empty > maxEmptyReads {
			return false, io.ErrNoProgress
		}
		if err := onRead(); err != nil {
			return false, err
		}
		if err := t.reservation.renew(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// detectType detects the content type once enough of the file, or all of it, is in the buffer.
func (t *transfer) detectType(declared string, ended bool) {
	if t.mimeType == "" && (ended || t.buffer.size >= sniffLength) {
		t.mimeType = sniff(t.buffer.head(sniffLength), declared)
	}
}

// inMemory reports whether the buffer holds the whole file.
func (t *transfer) inMemory() bool { return int64(t.buffer.size) == t.size }

// reserveSize reserves what was received, and all that the client declared: a file for
// which there is no room is rejected before most of it is sent.
func (t *transfer) reserveSize(ctx context.Context) error {
	return t.reservation.reserve(ctx, max(t.size, t.sizeHint))
}

// startMultipart begins the multipart upload of the file.
func (t *transfer) startMultipart(ctx context.Context) error {
	key := t.key(Original)
	t.writtenKeys = append(t.writtenKeys, key)
	multipart, err := t.service.objects.StartMultipart(ctx, t.scope.Bucket, key, t.mimeType)
	if err != nil {
		return t.writeFailed(err)
	}
	t.multipart = multipart
	return nil
}

// sendPart moves the first n bytes of the buffer, PartSize or all of them, to the object store. They
// must be reserved.
func (t *transfer) sendPart(ctx context.Context, n int) error {
	part := t.buffer.reader(n)
	defer func() { _ = part.Close() }()
	if err := t.multipart.Part(ctx, part, int64(n)); err != nil {
		return t.writeFailed(err)
	}
	_ = part.Close() // before its memory is reused
	t.buffer.drop(n)
	t.digest.advance(t.buffer.size)
	return nil
}

// completeMultipart makes the object of the parts.
func (t *transfer) completeMultipart(ctx context.Context) error {
	if err := t.multipart.Complete(ctx, t.mimeType); err != nil {
		return t.writeFailed(err)
	}
	return nil
}

// putWhole stores a file that is in memory with one request. It stays in memory.
func (t *transfer) putWhole(ctx context.Context) error {
	body := t.buffer.reader(t.buffer.size)
	defer func() { _ = body.Close() }()
	key := t.key(Original)
	t.writtenKeys = append(t.writtenKeys, key)
	if err := t.service.objects.Put(ctx, t.scope.Bucket, key, t.mimeType, body, t.size); err != nil {
		return t.writeFailed(err)
	}
	return nil
}

// put stores another object of the item with one request.
func (t *transfer) put(ctx context.Context, variant Variant, mimeType string, body io.ReadSeeker, size int64) error {
	key := t.key(variant)
	t.writtenKeys = append(t.writtenKeys, key)
	if err := t.service.objects.Put(ctx, t.scope.Bucket, key, mimeType, body, size); err != nil {
		return t.writeFailed(err)
	}
	return nil
}

// original describes the file as an object, once all of it has been sent.
func (t *transfer) original() Object {
	return Object{Variant: Original, Key: t.key(Original), Bytes: t.size, MimeType: t.mimeType, SHA256: t.digest.sum()}
}

// item returns the draft that the file becomes.
func (t *transfer) item(fields Fields, objects Objects) Item {
	return Item{
		ID: t.id, AccountID: t.scope.AccountID, AppID: t.scope.AppID,
		FileName: fields.FileName, Access: fields.Access, Caption: fields.Caption, Group: fields.Group,
		Objects: objects, CreatedAt: t.service.now(),
	}
}

func (t *transfer) key(variant Variant) string { return ObjectKey(t.id, variant) }

// writeFailed records that a write to the object store failed, and returns its error.
func (t *transfer) writeFailed(err error) error {
	t.writeUncertain = true
	return notStored(err)
}

// notStored maps NotFound to Unavailable for an error of storing a file: the bucket is
// missing while it is created again, or the upload was expired by the purge. Neither is an
// item that the client named.
func notStored(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unavailable, "the file could not be stored: try again")
	}
	return err
}

func tooLarge(a account.Account) error {
	return fault.New(fault.TooLarge, "the file is larger than maxUploadSize, %d bytes", a.MaxUploadSize)
}

// QuotaExceeded returns the fault of an account whose cap has no room for the bytes offered.
func QuotaExceeded(maxStorage int64) error {
	return fault.New(fault.QuotaExceeded, "the account's storage cap, %d bytes, has no room for this file", maxStorage)
}
