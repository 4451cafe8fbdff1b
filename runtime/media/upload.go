package media

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// PartSize is how many bytes of an upload are sent to S3, and held in memory, at a
// time. S3 takes parts of 5 MiB and more, the last one excepted.
const PartSize = 16 << 20

// MaxObject is the largest object that fits in S3's 10,000 parts of PartSize.
const MaxObject = 10_000 * PartSize

// smallUpload is how much of a file every upload may hold in memory. To hold up to a
// part it waits for one of the places that Config.UploadMemory has room for.
const smallUpload = 1 << 20

// Upload is a file on its way in. Begin, Receive, Commit; and Close in any case. It
// is not safe for concurrent use.
//
// A file of up to PartSize touches neither PostgreSQL nor S3 before Commit, so that
// a request which turns out wrong has changed nothing. A larger one is noted
// (intent), reserved under the cap and sent part by part while it arrives.
type Upload struct {
	service   *Service
	principal account.Principal
	scope     Scope
	id        uuid.UUID
	atLeast   int64 // what the client says of the size, 0 = nothing
	lease     time.Duration

	buffer buffer // what has arrived and is not in S3 yet
	large  bool   // holds a place in memory for a part
	// place is held in the queue of images; nil for other files.
	place    ImagePlace
	rate     rateGuard
	digest   hash.Hash
	size     int64
	mimeType string

	parts Multipart // nil while the file fits in one part
	// elsewhere is set when the file is in S3 and not in the buffer.
	elsewhere bool
	began     bool      // there may be an intent row
	reserved  int64     // under the cap
	sent      []string  // keys that S3 may know of
	renewed   time.Time // when the lease was last extended
	over      bool      // committed, or abandoned
	unsure    bool      // S3 may still be carrying out a write that was given up
	released  bool
}

// Begin takes a place for an upload of at least atLeast bytes (0 = not known) and
// refuses early what can't end well: TooLarge, OverCap, Busy, and Unavailable while
// the account's bucket is not known to be its own.
func (s *Service) Begin(ctx context.Context, p account.Principal, atLeast int64) (*Upload, error) {
	scope := ScopeOf(p)
	if !p.Account.BucketOwned {
		return nil, fault.New(fault.Unavailable, "the account's bucket is not ready for uploads")
	}
	if atLeast > p.Account.MaxUploadSize {
		return nil, tooLarge(p)
	}
	if atLeast > PartSize {
		room, maxStorage, err := s.store.AvailableBytes(ctx, scope)
		if err != nil {
			return nil, err
		}
		if atLeast > room {
			return nil, CapExceeded(maxStorage)
		}
	}
	if s.images != nil {
		if err := s.images.Admit(scope.AccountID); err != nil {
			return nil, err
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	if err := s.limits.acquire(ctx, s.limits.uploads, scope.AccountID); err != nil {
		return nil, err
	}
	return &Upload{service: s, principal: p, scope: scope, id: id, atLeast: atLeast, lease: s.cfg.UploadLease, digest: sha256.New()}, nil
}

func tooLarge(p account.Principal) error {
	return fault.New(fault.TooLarge, "the file is larger than maxUploadSize, %d bytes", p.Account.MaxUploadSize)
}

// CapExceeded returns the fault of an account whose cap has no room for the bytes offered.
func CapExceeded(maxStorage int64) error {
	return fault.New(fault.QuotaExceeded, "the account's storage cap, %d bytes, has no room for this file", maxStorage)
}

// Receive reads the file to its end. claim is the client's word for the type. After
// an error the upload can only be closed.
func (u *Upload) Receive(ctx context.Context, file io.Reader, claim string) error {
	defer u.startRateMonitor()()
	for {
		ended, err := u.fill(ctx, file, func() error { return u.look(claim, false) })
		if err == nil {
			err = u.look(claim, ended)
		}
		if err != nil {
			return err
		}
		if ended {
			return nil
		}
		if err := u.flush(ctx); err != nil {
			return err
		}
	}
}

// Claim is the client's word for the type where it comes after the file. It is too late
// for a file of which a part has been sent.
func (u *Upload) Claim(mimeType string) {
	if u.parts == nil && !u.elsewhere {
		u.mimeType = sniff(u.buffer.head(sniffLength), mimeType)
	}
}

// detect tells the type once enough of the file is there, or all of it.
func (u *Upload) detect(claim string, whole bool) {
	if u.mimeType == "" && (whole || u.buffer.size >= sniffLength) {
		u.mimeType = sniff(u.buffer.head(sniffLength), claim)
	}
}

// emptyReads is how many reads in a row may give nothing before the reader is taken for broken.
const emptyReads = 100

// fill reads until there is more than a part (false) or the file has ended (true). look
// is called after each read but the last.
func (u *Upload) fill(ctx context.Context, file io.Reader, look func() error) (ended bool, err error) {
	for empty := 0; u.buffer.size <= PartSize; {
		if err := u.makeRoom(ctx); err != nil {
			return false, err
		}
		u.rate.beginRead()
		fresh, err := u.buffer.read(file)
		slow := u.rate.endRead(len(fresh))
		if u.size += int64(len(fresh)); u.size > u.principal.Account.MaxUploadSize {
			return false, tooLarge(u.principal)
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
		if len(fresh) > 0 {
			empty = 0
		} else if empty++; empty > emptyReads {
			return false, io.ErrNoProgress
		}
		if err := look(); err != nil {
			return false, err
		}
		if err := u.renew(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// makeRoom waits for memory once a file turns out not to be small.
func (u *Upload) makeRoom(ctx context.Context) error {
	if u.large || u.buffer.size < smallUpload {
		return nil
	}
	return u.enlarge(ctx)
}

// enlarge waits for a place in memory for a part.
func (u *Upload) enlarge(ctx context.Context) error {
	if err := u.service.limits.acquire(ctx, u.service.limits.partMemory, u.scope.AccountID); err != nil {
		return err
	}
	u.large = true
	return nil
}

// renew extends the lease of an upload that makes progress, but slowly.
func (u *Upload) renew(ctx context.Context) error {
	if !u.began || u.service.now().Sub(u.renewed) < u.lease/2 {
		return nil
	}
	return u.reserve(ctx, 0)
}

// flush sends the full part at the front of the buffer.
func (u *Upload) flush(ctx context.Context) error {
	// All that the client announced is reserved at once, so that a file which can't
	// fit is refused now and not after most of it was sent.
	if err := u.hold(ctx, max(u.size, u.atLeast)); err != nil {
		return err
	}
	if u.parts == nil {
		u.sent = append(u.sent, u.key(Original))
		var err error
		if u.parts, err = u.service.objects.StartMultipart(ctx, u.scope.Bucket, u.key(Original), u.mimeType); err != nil {
			return u.doubt(err)
		}
	}
	if err := u.sendPart(ctx, PartSize); err != nil {
		return err
	}
	u.buffer.drop(PartSize)
	return nil
}

// sendPart hashes and sends the first n bytes of the buffer.
func (u *Upload) sendPart(ctx context.Context, n int) error {
	u.buffer.hash(u.digest, n)
	body := u.buffer.body(n)
	defer func() { _ = body.Close() }()
	if err := u.parts.Part(ctx, body, int64(n)); err != nil {
		return u.doubt(err)
	}
	return nil
}

func (u *Upload) key(variant Variant) string { return ObjectKey(u.id, variant) }

// doubt notes that a write to S3 ended with an error. S3 may be told too late that
// its client has gone, and store the object after it was removed.
func (u *Upload) doubt(err error) error {
	u.unsure = true
	return err
}

// hold makes sure that total bytes are reserved under the cap. The first call notes
// the intent with them. Both are done before those bytes reach S3.
func (u *Upload) hold(ctx context.Context, total int64) error {
	if u.began {
		if total <= u.reserved {
			return nil
		}
		return u.reserve(ctx, total-u.reserved)
	}
	now := u.service.now()
	u.began = true // from here on there may be a row, whatever the answer
	if err := u.service.store.OpenUpload(ctx, u.id, u.scope, total, now.Add(u.lease)); err != nil {
		return err
	}
	u.reserved, u.renewed = total, now
	return nil
}

// reserve holds more bytes, and extends the lease.
func (u *Upload) reserve(ctx context.Context, more int64) error {
	now := u.service.now()
	if err := u.service.store.Reserve(ctx, u.id, u.scope, more, now.Add(u.lease)); err != nil {
		return err
	}
	u.reserved, u.renewed = u.reserved+more, now
	return nil
}

// Commit stores what is left of the file and its derivatives, and makes the draft.
// When it returns nil, the draft and its bytes are durable.
func (u *Upload) Commit(ctx context.Context, fields Fields) (Item, error) {
	if err := fields.Validate(); err != nil {
		return Item{}, err
	}
	fields = fields.withDefaults()
	if err := u.hold(ctx, u.size); err != nil {
		return Item{}, err
	}
	objects, err := u.storeObjects(ctx)
	if err != nil {
		return Item{}, err
	}
	item := u.item(fields, objects)
	if err := u.service.store.CommitUpload(ctx, item); err != nil {
		return Item{}, err
	}
	u.over = true
	return item, nil
}

// item is the draft that the upload becomes.
func (u *Upload) item(fields Fields, objects Objects) Item {
	return Item{
		ID: u.id, AccountID: u.scope.AccountID, AppID: u.scope.AppID,
		FileName: fields.FileName, Access: fields.Access, Caption: fields.Caption, Group: fields.Group,
		Objects: objects, CreatedAt: u.service.now(),
	}
}

// storeObjects puts the rest of the original, and the derivatives.
func (u *Upload) storeObjects(ctx context.Context) (Objects, error) {
	original := Object{Variant: Original, Key: u.key(Original), Bytes: u.size, MimeType: u.mimeType}
	if u.parts == nil {
		u.buffer.hash(u.digest, u.buffer.size)
		body := u.buffer.body(u.buffer.size)
		defer func() { _ = body.Close() }()
		if err := u.put(ctx, original, body); err != nil {
			return nil, err
		}
	} else {
		if err := u.sendPart(ctx, u.buffer.size); err != nil {
			return nil, err
		}
		if err := u.parts.Complete(ctx, u.mimeType); err != nil {
			return nil, u.doubt(err)
		}
	}
	original.SHA256 = u.digest.Sum(nil)
	derivatives, err := u.derive(ctx)
	return append(Objects{original}, derivatives...), err
}

// put stores a whole object.
func (u *Upload) put(ctx context.Context, object Object, body io.ReadSeeker) error {
	u.sent = append(u.sent, object.Key)
	if err := u.service.objects.Put(ctx, u.scope.Bucket, object.Key, object.MimeType, body, object.Bytes); err != nil {
		return u.doubt(err)
	}
	return nil
}

// abandonTimeout bounds the clean-up after a failed upload; what it can't do in
// time, the purge does when the lease has ended.
const abandonTimeout = 30 * time.Second

// Close releases the upload's place and memory. An upload that was not committed
// is abandoned: its reservation is released and what reached S3 is removed.
func (u *Upload) Close(ctx context.Context) {
	if u.began && !u.over {
		u.abandon(ctx)
	}
	u.over = true
	u.release()
}

// release releases the upload's place and memory, once.
func (u *Upload) release() {
	if u.released {
		return
	}
	u.released = true
	u.leaveQueue()
	u.buffer.release()
	if u.large {
		u.service.limits.partMemory.Release(u.scope.AccountID)
	}
	u.service.limits.uploads.Release(u.scope.AccountID)
}

func (u *Upload) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	removal, err := u.service.store.AbandonUpload(ctx, u.id, u.scope, u.sent, u.service.now().Add(removalGrace))
	if err != nil {
		u.service.log.WarnContext(ctx, "an abandoned upload is left to the purge", "item", u.id, "error", err)
		return
	}
	switch {
	case removal == nil:
	case u.unsure:
		// Space is freed now; the removal stays queued, so that the purge looks again
		// once nothing can be on its way any more.
		u.service.tryRemoval(ctx, *removal)
	default:
		u.service.removeNow(ctx, *removal)
	}
}
