package upload

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/filehead"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

const (
	// PartSize is the size of the parts in which a file is sent to S3, unless maxParts requires larger
	// ones. It is the smallest that S3 accepts, except for the last part.
	PartSize = 5 << 20
	// bufferSize is the most that an upload buffers of a file: a part that is being sent, and the next
	// one, which arrives meanwhile unless the buffers of all uploads have Config.readAhead.
	bufferSize = 2 * PartSize
	// MaxSinglePut is the size of the largest file that is stored with one request, and of the largest
	// part. The buffer holds more, so that a transfer can find out whether the file goes on.
	MaxSinglePut = bufferSize - chunkSize
	// maxParts is the maximum number of parts of an S3 object.
	maxParts = 10_000
	// MaxFile is the maximum of an account's maxUploadSize, in parts that fit into the buffer.
	MaxFile = maxParts * (8 << 20)
	// inlineLimit is how much every upload may buffer. To buffer more, up to bufferSize, it
	// acquires a slot of Config.UploadMemory.
	inlineLimit = 1 << 20
	// maxEmptyReads is how many reads in a row may return nothing before fill fails.
	maxEmptyReads = 100
)

// transfer moves the bytes of one file from a request to the object store. Single (one
// request) and Resumable (many requests) stand on it.
//
//	request --fill--> buffer --beginPart, awaitPart--> object store
//	                         \-putWhole (small files)-/
//
// A part is sent while the next one arrives, if there is memory for it. A transfer owns the slots that it has
// acquired. close releases them once, together with the buffer. A transfer is not safe for concurrent use.
type transfer struct {
	service  *Service
	account  account.Account
	scope    media.Scope
	id       uuid.UUID
	sizeHint int64 // minimum of the size, from what the client declared; 0 = none
	partSize int   // least size of all parts but the last ones of requests; a multiple of chunkSize
	next     int   // size of the next part, at least partSize; a multiple of chunkSize

	buffer   buffer      // bytes received that S3 may not have: those of sending, and the unsent ones
	sending  *sentPart   // nil = no part is being sent
	digest   digest      // of the bytes received
	size     int64       // bytes received
	mimeType string      // empty until enough bytes have been received to detect it
	detected string      // the type by the bytes alone, once mimeType is known
	facts    media.Facts // of an image; zero until derive has read them
	// derivatives is what the settings of the account say of images; empty until it was read.
	derivatives settings.Derivatives
	// pending is set if derivatives are to be made later.
	pending bool
	// underivable is why derive could not make a derivative; nil = it made all, or none was wanted.
	underivable error
	head        filehead.Head // of the bytes that were in the buffer before any was sent
	// capability restricts the file; nil = nothing does.
	capability *Capability

	reservation *reservation
	// writer stores the objects before anything is recorded of them; nil = the reservation is recorded first.
	writer    *ownWriter
	multipart media.Multipart // nil until the first part is sent
	// writtenKeys are the keys that the object store may have an object of.
	writtenKeys []string
	// writeUncertain is set when a write to the object store failed with an unknown
	// outcome: the object may still appear after it has been removed.
	writeUncertain bool

	uploadSlot slot
	partSlot   slot            // held while the buffer may exceed inlineLimit
	imageSlot  media.ImageSlot // nil = none
	rate       rateGuard
}

// sentPart is a part that is being sent: the first bytes of the buffer.
type sentPart struct {
	size  int
	state []byte // of the digest, after it
	body  *bufferReader
	done  chan error // receives the result
}

// newTransfer returns a transfer that owns nothing yet.
func (s *Service) newTransfer(a account.Account, reservation *reservation, sizeHint int64, partSize int) *transfer {
	return &transfer{service: s, account: a, scope: reservation.scope, id: reservation.itemID, sizeHint: sizeHint,
		partSize: partSize, next: partSize, buffer: buffer{held: &s.buffered}, digest: s.newDigest(), reservation: reservation}
}

// partSizeFor returns the size of parts with which a file of so many bytes fits into so many parts.
func partSizeFor(bytes int64, parts int) int {
	size := (bytes + int64(parts) - 1) / int64(parts)
	return int(max(PartSize, min(MaxSinglePut, (size+chunkSize-1)/chunkSize*chunkSize)))
}

// newReservation returns the reservation of an upload that has no row yet.
func (s *Service) newReservation(itemID uuid.UUID, scope media.Scope) *reservation {
	return &reservation{store: s.deps.Store, now: s.deps.Now, itemID: itemID, scope: scope, lease: s.cfg.UploadLease}
}

// acquireUploadSlot waits for an upload slot.
func (t *transfer) acquireUploadSlot(ctx context.Context) (err error) {
	t.uploadSlot, err = t.service.limits.acquire(ctx, t.service.limits.uploads, t.scope.AccountID)
	return err
}

// acquirePartSlot waits for the memory of a whole buffer, unless the transfer has it.
func (t *transfer) acquirePartSlot(ctx context.Context) (err error) {
	if t.partSlot.held() {
		return nil
	}
	t.partSlot, err = t.service.limits.acquire(ctx, t.service.limits.partMemory, t.scope.AccountID)
	return err
}

// close releases the buffer and the slots, once no part is being sent.
func (t *transfer) close() {
	_ = t.awaitPart() // the upload has ended
	t.releaseImageSlot()
	t.buffer.release()
	t.partSlot.release()
	t.uploadSlot.release()
}

// unsent returns how many bytes of the buffer are not being sent.
func (t *transfer) unsent() int {
	if t.sending == nil {
		return t.buffer.size
	}
	return t.buffer.size - t.sending.size
}

// hash adds bytes that were read into the buffer to the digest.
func (t *transfer) hash(data []byte) {
	if t.digest.write(data); t.unsent() == t.next { // a read ends with a chunk at the latest
		t.digest.markPart()
	}
}

// setNext sets the size of the next part, at least as many bytes as are unsent.
func (t *transfer) setNext(n int) {
	if t.next = n; t.unsent() == n { // it has arrived already, and no read ends with it
		t.digest.markPart()
	}
}

// mustSendFirst reports whether the part that is being sent must be stored before more is read: the buffer is
// full, or it would grow while all buffers together have what uploads may use to receive and send at once.
func (t *transfer) mustSendFirst() bool {
	return t.sending != nil && (t.buffer.size >= bufferSize || t.buffer.full() && t.service.buffered.Load() >= t.service.cfg.readAhead())
}

// fill reads until more than n bytes are unsent (false) or the file has ended (true); n is at most
// MaxSinglePut. It calls onRead after each read except the last. It waits for the part that is being sent
// while mustSendFirst.
func (t *transfer) fill(ctx context.Context, file io.Reader, n int, onRead func() error) (ended bool, err error) {
	for empty := 0; t.unsent() <= n; {
		if t.buffer.size >= inlineLimit {
			if err := t.acquirePartSlot(ctx); err != nil {
				return false, err
			}
		}
		if t.mustSendFirst() {
			if err := t.awaitPart(); err != nil {
				return false, err
			}
		}
		t.rate.beginRead()
		data, err := t.buffer.read(file)
		slow := t.rate.endRead(len(data))
		t.hash(data)
		if t.size += int64(len(data)); t.size > t.account.MaxUploadSize {
			return false, tooLarge(t.account)
		}
		if err := t.capability.checkSize(t.size); err != nil {
			return false, err
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
		head := t.buffer.head(sniffLength)
		found := detect(head)
		t.detected, t.mimeType = refine(head, found, ""), refine(head, found, t.capability.declaredType(declared))
	}
}

// readHead reads what the first bytes of the file say, as long as the buffer has them. It is called before
// any of them is sent.
func (t *transfer) readHead() {
	if int64(t.buffer.size) == t.size {
		t.head = filehead.Read(t.buffer.head(filehead.Length))
	}
}

// checkType returns a fault for a type that the capability does not permit, once it is detected.
func (t *transfer) checkType() error {
	if t.mimeType == "" {
		return nil
	}
	return t.capability.checkType(t.mimeType)
}

// inMemory reports whether the buffer holds the whole file, of which no part is sent.
func (t *transfer) inMemory() bool { return t.multipart == nil && int64(t.buffer.size) == t.size }

// reserveSize reserves what was received, and all that the client declared: a file for
// which there is no room is rejected before most of it is sent.
func (t *transfer) reserveSize(ctx context.Context) error {
	return t.reservation.reserve(ctx, max(t.size, t.sizeHint))
}

// startMultipart begins the multipart upload of the file.
func (t *transfer) startMultipart(ctx context.Context) error {
	key := t.key(media.Original)
	t.writtenKeys = append(t.writtenKeys, key)
	multipart, err := t.service.deps.Objects.StartMultipart(ctx, t.scope.Bucket, key, t.mimeType)
	if err != nil {
		return t.writeFailed(err)
	}
	t.multipart = multipart
	return nil
}

// beginPart begins to send the first n unsent bytes, next or all of them, to the object store, after
// the part that is being sent. They must be reserved. If they do not end with a chunk, nothing may be read
// before awaitPart. Until awaitPart has returned, multipart must not be used.
func (t *transfer) beginPart(ctx context.Context, n int) error {
	if err := t.awaitPart(); err != nil {
		return err
	}
	part := &sentPart{size: n, state: t.digest.takePart(n == t.buffer.size), body: t.buffer.reader(n), done: make(chan error, 1)}
	t.sending = part
	multipart := t.multipart
	go func() { part.done <- multipart.Part(ctx, part.body, int64(n)) }()
	return nil
}

// awaitPart waits until the part that is being sent is stored, and removes it from the buffer.
func (t *transfer) awaitPart() error {
	part := t.sending
	if part == nil {
		return nil
	}
	err := <-part.done
	_ = part.body.Close() // before its memory is reused
	t.sending = nil
	if err != nil {
		return t.writeFailed(err)
	}
	t.buffer.drop(part.size)
	t.digest.stored = part.state
	return nil
}

// sendRest sends all that is in the buffer as one part, and waits until it is stored.
func (t *transfer) sendRest(ctx context.Context) error {
	if err := t.awaitPart(); err != nil {
		return err
	}
	if err := t.beginPart(ctx, t.buffer.size); err != nil {
		return err
	}
	return t.awaitPart()
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
	key := t.key(media.Original)
	t.writtenKeys = append(t.writtenKeys, key)
	if err := t.service.deps.Objects.Put(ctx, t.scope.Bucket, key, t.mimeType, body, t.size); err != nil {
		return t.writeFailed(err)
	}
	return nil
}

// put stores another object of the item with one request.
func (t *transfer) put(ctx context.Context, variant media.Variant, mimeType string, body io.ReadSeeker, size int64) error {
	key := t.key(variant)
	t.writtenKeys = append(t.writtenKeys, key)
	if err := t.service.deps.Objects.Put(ctx, t.scope.Bucket, key, mimeType, body, size); err != nil {
		return t.writeFailed(err)
	}
	return nil
}

// original describes the file as an object, once all of it has been sent.
func (t *transfer) original() media.Object {
	return media.Object{Variant: media.Original, Key: t.key(media.Original), Bytes: t.size, MimeType: t.mimeType, SHA256: t.digest.sum()}
}

// item returns the draft that the file becomes.
func (t *transfer) item(fields media.Fields, objects media.Objects) media.Item {
	facts := t.facts
	if filehead.MayKnow(t.mimeType) {
		head := t.head.Of(t.size)
		facts.Duration, facts.Pages = head.Duration, head.Pages
	}
	facts.CaptureRead = facts.CaptureRead || !media.MaySayCapture(t.mimeType)
	state := media.DerivativesWithUpload
	if t.pending {
		state = media.DerivativesPending
	}
	check := media.CheckNone
	if t.scope.Gated {
		check = media.CheckWaiting
	}
	return media.Item{
		ID: t.id, AccountID: t.scope.AccountID, AppID: t.scope.AppID,
		FileName: fields.FileName, Access: fields.Access, Caption: fields.Caption, Group: fields.Group,
		Metadata: fields.Metadata, Objects: objects, Derivatives: state, Check: check, Facts: facts, Capture: facts.Capture, Version: 1, CreatedAt: t.service.deps.Now(),
	}
}

func (t *transfer) key(variant media.Variant) string {
	if t.writer != nil {
		return media.WriterKey(t.id, variant, t.writer.Number)
	}
	return media.ObjectKey(t.id, variant)
}

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

// tooLarge names maxStorage where it is the bound: a maxUploadSize that is absent is not larger.
func tooLarge(a account.Account) error {
	if a.MaxStorage <= a.MaxUploadSize {
		return fault.New(fault.TooLarge, "the file is larger than maxStorage, %d bytes, the storage cap of the account", a.MaxStorage)
	}
	return fault.New(fault.TooLarge, "the file is larger than maxUploadSize, %d bytes", a.MaxUploadSize)
}

// QuotaExceeded returns the fault of an account whose cap has no room for the bytes offered.
func QuotaExceeded(maxStorage int64) error {
	return fault.New(fault.QuotaExceeded, "the account's storage cap, %d bytes, has no room for this file", maxStorage)
}
