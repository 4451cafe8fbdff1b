package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// leastPart is the smallest part that S3 takes unless it is the last one. What a
// request leaves below it, or below what least says, is kept as an object of its own,
// the tail, until the next request brings more.
const leastPart = 5 << 20

// mostParts is how many parts S3 takes.
const mostParts = MaxObject / PartSize

// tailVariants are the names of tails. They take turns, so that the one which is in
// force is never written over.
var tailVariants = [...]Variant{"tail-0", "tail-1"}

// Progress is how far a resumable upload has come: what any replica needs to go on
// with it. It is durable before Received is told to a client.
type Progress struct {
	Received int64
	// Digest is the state of the hash over all but the tail.
	Digest []byte
	// MultipartID and Parts are those of S3; all parts together come before the tail.
	MultipartID string
	Parts       []Part
	// Whole is set when the file was put in one request.
	Whole bool
	// Tail is the variant that was last used for a tail, empty if none ever was. It
	// holds the last TailBytes bytes.
	Tail      Variant
	TailBytes int64
	TailHash  SHA256
	// MimeType is what the bytes look like; empty until enough of them are there.
	MimeType string
}

// Part is a stored part of an object that is put in parts.
type Part struct {
	ETag  string `json:"etag"`
	Bytes int64  `json:"bytes"`
}

// ResumableState is a resumable upload as the store keeps it.
type ResumableState struct {
	ItemID uuid.UUID
	Scope  Scope
	// Length of the file; UnknownLength until the client declares it.
	Length int64
	Fields Fields
	// Metadata is the text that Fields were read from, as the client sent it. It has
	// at most MaxMetadata bytes.
	Metadata string
	Reserved int64 // bytes held under the cap
	Progress Progress
	// Expires is the end of the lease, which everything that arrives extends. The purge
	// ends the upload some time later.
	Expires time.Time
	// Item is there when the upload was committed.
	Item *Item
}

// expired reports whether the upload has reached its expiry, in whole seconds as clients
// are told it. The rule is the same at every replica.
func (r ResumableState) expired(now time.Time) bool {
	return !now.Before(r.Expires.Truncate(time.Second))
}

// UnknownLength is the length of an upload whose client does not know it yet.
const UnknownLength = -1

// ResumableStore keeps resumable uploads. PostgreSQL implements it.
type ResumableStore interface {
	// OpenResumable durably notes the upload and holds reserved bytes. OverCap when the
	// account has no room.
	OpenResumable(ctx context.Context, upload ResumableState) error
	// FindResumable returns an upload that is running or committed, expired or not. NotFound
	// when it never was, belongs to another app, was ended or purged, and when its item is gone.
	FindResumable(ctx context.Context, scope Scope, itemID uuid.UUID) (ResumableState, error)
	// SetLength declares a length that was unknown; Conflict when it is known.
	SetLength(ctx context.Context, scope Scope, itemID uuid.UUID, length int64) error
	// SaveProgress replaces the progress, and extends the lease. Conflict when the upload
	// was ended, is not where before says any more, or is sent in the parts of another
	// multipart upload by now; giving those up is allowed.
	SaveProgress(ctx context.Context, itemID uuid.UUID, before int64, progress Progress, expires time.Time) error
	// CommitResumable makes the draft as CommitUpload does, and queues the removal of
	// the tails in the same transaction. It gives that removal, due at notBefore.
	CommitResumable(ctx context.Context, item Item, tails []string, notBefore time.Time) (*Removal, error)
}

// Resumable is an upload that arrives in any number of requests, at any replica. One
// request at a time may use it; the edge has a lock for that. It is not safe for
// concurrent use.
//
// What counts as received is durable: in parts of the object that will be the item's,
// or in the tail. When everything was received the upload still has to be finished,
// and only then may a client be told that it is complete.
type Resumable struct {
	service   *Service
	principal account.Principal
	state     ResumableState
	abort     func(why error) // nil = a read can't be aborted
}

// OnSlow registers how to abort a read of the file from another goroutine, as for an
// Upload: what has arrived is kept.
func (r *Resumable) OnSlow(abort func(why error)) { r.abort = abort }

// CreateResumable notes an upload of length bytes, or of UnknownLength, and reserves
// them. It keeps metadata, the text that the fields were read from, unchanged. Faults are
// those of Begin, Invalid for fields out of bounds, and TooLarge for too much metadata.
func (s *Service) CreateResumable(ctx context.Context, p account.Principal, length int64, fields Fields, metadata string) (*Resumable, error) {
	if len(metadata) > MaxMetadata {
		return nil, fault.New(fault.TooLarge, "the metadata must be at most %d bytes", MaxMetadata)
	}
	if err := fields.Validate(); err != nil {
		return nil, err
	}
	if !p.Account.BucketOwned {
		return nil, fault.New(fault.Unavailable, "the account's bucket is not ready for uploads")
	}
	if length > p.Account.MaxUploadSize {
		return nil, tooLarge(p)
	}
	if length < UnknownLength {
		return nil, fault.New(fault.Invalid, "the length must not be negative")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	state := ResumableState{ItemID: id, Scope: ScopeOf(p), Length: length, Fields: fields.withDefaults(), Metadata: metadata, Reserved: max(0, length),
		Expires: s.now().Add(s.cfg.ResumableTTL)}
	if err := s.store.OpenResumable(ctx, state); err != nil {
		return nil, err
	}
	return &Resumable{service: s, principal: p, state: state}, nil
}

// FindResumable finds an upload of the principal's app as it is; NotFound for any
// other, and from the upload's expiry on. A call that found it before may go on: what it
// receives extends the expiry. What State says of it is not for a client: see Resume.
func (s *Service) FindResumable(ctx context.Context, p account.Principal, id uuid.UUID) (*Resumable, error) {
	state, err := s.store.FindResumable(ctx, ScopeOf(p), id)
	if err != nil {
		return nil, err
	}
	if state.expired(s.now()) {
		return nil, fault.New(fault.NotFound, "the upload has expired")
	}
	return &Resumable{service: s, principal: p, state: state}, nil
}

// Resume finds an upload as FindResumable does. One that has received everything is
// finished first, so that what State says of it can be told.
func (s *Service) Resume(ctx context.Context, p account.Principal, id uuid.UUID) (*Resumable, error) {
	r, err := s.FindResumable(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if r.received() {
		// One that had to start over can be told: it has not received everything any more.
		if _, err := r.Finish(ctx); err != nil && r.received() {
			return nil, err
		}
	}
	return r, nil
}

// State tells how far the upload is. Item is there once it is committed.
func (r *Resumable) State() ResumableState { return r.state }

// received reports whether every byte is there.
func (r *Resumable) received() bool {
	return r.state.Length != UnknownLength && r.state.Progress.Received == r.state.Length
}

// DeclareLength says how long the file is, once. The rest is reserved.
func (r *Resumable) DeclareLength(ctx context.Context, length int64) error {
	switch {
	case length < r.state.Progress.Received:
		return fault.New(fault.Invalid, "the length is less than what was received")
	case length > r.principal.Account.MaxUploadSize:
		return tooLarge(r.principal)
	}
	u := r.resume()
	if err := u.hold(ctx, length); err != nil {
		return err
	}
	r.state.Reserved, r.state.Expires = u.reserved, u.renewed.Add(u.lease)
	if err := r.service.store.SetLength(ctx, r.state.Scope, r.state.ItemID, length); err != nil {
		return err
	}
	r.state.Length = length
	return nil
}

// resume restores the pipeline that the bytes go through.
func (r *Resumable) resume() *Upload {
	return &Upload{service: r.service, principal: r.principal, scope: r.state.Scope, id: r.state.ItemID, atLeast: max(0, r.state.Length),
		digest: sha256.New(), size: r.state.Progress.Received, mimeType: r.state.Progress.MimeType,
		began: true, reserved: r.state.Reserved, renewed: r.state.Expires.Add(-r.service.cfg.ResumableTTL), lease: r.service.cfg.ResumableTTL}
}

// Write takes the bytes of file from offset on, until it ends or fails, and says how
// many of them are durable now. proof, if there is one, is asked when file has ended;
// when it refuses the bytes, none of them count. Without it whatever arrived before a
// failure counts.
func (r *Resumable) Write(ctx context.Context, offset int64, file io.Reader, proof func() error) (int64, error) {
	before := r.state.Progress.Received
	if r.state.Item != nil || offset != before {
		return 0, fault.New(fault.Conflict, "the upload has received %d bytes", before)
	}
	if err := r.service.limits.acquire(ctx, r.service.limits.uploads, r.state.Scope.AccountID); err != nil {
		return 0, err
	}
	u := r.resume()
	defer u.release()
	if err := r.restore(ctx, u); err != nil {
		return 0, err
	}
	err := r.receive(ctx, u, file, proof)
	if errors.Is(err, ErrPartsLost) {
		err = r.startOver(ctx, u, err)
	}
	return max(0, r.state.Progress.Received-before), err
}

// restore brings back what was in memory when the last request ended.
func (r *Resumable) restore(ctx context.Context, u *Upload) error {
	p := r.state.Progress
	if len(p.Digest) > 0 {
		if err := u.digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.Digest); err != nil {
			return fmt.Errorf("restore the hash of upload %s: %w", u.id, err)
		}
	}
	if p.MultipartID != "" {
		u.parts = r.service.objects.ResumeMultipart(u.scope.Bucket, u.key(Original), p.MultipartID, p.Parts)
	}
	if p.TailBytes == 0 {
		return nil
	}
	if p.TailBytes > smallUpload {
		if err := u.enlarge(ctx); err != nil {
			return err
		}
	}
	tail, err := r.service.objects.Open(ctx, u.scope.Bucket, u.key(p.Tail), 0, p.TailBytes)
	if fault.Is(err, fault.NotFound) {
		return r.rollBack(ctx, u)
	}
	if err != nil {
		return err
	}
	defer func() { _ = tail.Close() }()
	hash := sha256.New()
	for err == nil {
		var fresh []byte
		fresh, err = u.buffer.read(tail)
		_, _ = hash.Write(fresh)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(hash.Sum(nil), p.TailHash) {
		return r.rollBack(ctx, u)
	}
	return nil
}

// rollBack discards a tail that is not what it should be: a replica which had lost the
// upload to another one may have written over it. The client is told to send it again.
func (r *Resumable) rollBack(ctx context.Context, u *Upload) error {
	r.service.log.WarnContext(ctx, "the tail of a resumable upload is lost", "item", u.id, "bytes", r.state.Progress.TailBytes)
	back := r.state.Progress
	back.Received, back.TailBytes, back.TailHash = back.Received-back.TailBytes, 0, nil
	if err := r.replace(ctx, u, back); err != nil {
		return err
	}
	return fault.New(fault.Conflict, "the upload has received %d bytes", back.Received)
}

// startOver discards all that was received, because S3 has it no more: a replica that
// had lost the upload to another one may have taken the parts away, and S3 may have died
// while it joined them. Otherwise the upload could neither go on nor be finished.
func (r *Resumable) startOver(ctx context.Context, u *Upload, why error) error {
	r.service.log.WarnContext(ctx, "the parts of a resumable upload are lost", "item", u.id, "bytes", r.state.Progress.Received, "error", why)
	if err := r.replace(ctx, u, Progress{Tail: r.state.Progress.Tail}); err != nil {
		return err
	}
	return fault.Wrap(why, fault.Conflict, "the upload has received 0 bytes")
}

// receive takes bytes to the end of the request.
func (r *Resumable) receive(ctx context.Context, u *Upload, file io.Reader, proof func() error) error {
	u.rate.abort = r.abort
	defer u.startRateMonitor()()
	limit := r.principal.Account.MaxUploadSize
	if r.state.Length != UnknownLength {
		limit = r.state.Length
	}
	// One byte more than may come tells that too much does.
	file = io.LimitReader(file, limit-u.size+1)
	for {
		ended, failed := u.fill(ctx, file, func() error { return nil })
		switch {
		case u.size > limit && r.state.Length == UnknownLength:
			return tooLarge(r.principal)
		case u.size > limit:
			return fault.New(fault.Invalid, "there is more than the length that was declared, %d bytes", limit)
		}
		if failed != nil && proof != nil {
			return failed
		}
		u.detect(r.state.Fields.MimeType, u.size == r.state.Length)
		if ended || failed != nil {
			return errors.Join(failed, r.settle(ctx, u, proof))
		}
		if err := r.flush(ctx, u, PartSize); err != nil {
			return err
		}
		if proof == nil {
			// What is left in the buffer is not worth a tail while more comes.
			next := r.next(u)
			next.Received, next.TailBytes, next.TailHash = u.size-int64(u.buffer.size), 0, nil
			if err := r.replace(ctx, u, next); err != nil {
				return err
			}
		}
	}
}

// flush sends the first n bytes of the buffer as a part.
func (r *Resumable) flush(ctx context.Context, u *Upload, n int) error {
	if err := u.hold(ctx, max(u.size, u.atLeast)); err != nil {
		return err
	}
	if u.parts == nil {
		if err := r.forgetTries(ctx, u); err != nil {
			return err
		}
		var err error
		if u.parts, err = r.service.objects.StartMultipart(ctx, u.scope.Bucket, u.key(Original), u.mimeType); err != nil {
			return err
		}
		begun := r.state.Progress
		begun.MultipartID = u.parts.ID()
		if err := r.replace(ctx, u, begun); err != nil {
			if fault.Is(err, fault.Conflict) { // nobody will know of it
				err = errors.Join(err, u.parts.Abort(ctx))
			}
			return err
		}
	}
	if err := u.sendPart(ctx, n); err != nil {
		return err
	}
	u.buffer.drop(n)
	return nil
}

// forgetTries removes what an earlier try to send parts began and could not note; it
// would stay for ever.
func (r *Resumable) forgetTries(ctx context.Context, u *Upload) error {
	return r.service.objects.AbortIncomplete(ctx, u.scope.Bucket, u.key(Original))
}

// settle makes durable what is left when a request ends.
func (r *Resumable) settle(ctx context.Context, u *Upload, proof func() error) error {
	if proof != nil {
		if err := proof(); err != nil {
			return err
		}
	}
	if err := u.hold(ctx, u.size); err != nil {
		return err
	}
	complete := u.size == r.state.Length
	switch {
	case complete && u.parts == nil:
		if u.size >= leastPart {
			if err := r.forgetTries(ctx, u); err != nil {
				return err
			}
		}
		u.buffer.hash(u.digest, u.buffer.size)
		original := Object{Key: u.key(Original), Bytes: u.size, MimeType: u.mimeType}
		body := u.buffer.body(u.buffer.size)
		defer func() { _ = body.Close() }()
		if err := u.put(ctx, original, body); err != nil {
			return err
		}
		u.buffer.release()
		whole := r.next(u)
		whole.Received, whole.Whole, whole.TailBytes, whole.TailHash = u.size, true, 0, nil
		return r.replace(ctx, u, whole)
	case u.buffer.size >= r.least(u), complete && u.buffer.size > 0:
		if err := r.flush(ctx, u, u.buffer.size); err != nil {
			return err
		}
	}
	return r.save(ctx, u)
}

// least is how much is worth a part: so much that the largest file which this one may
// still become fits into the parts that are left.
func (r *Resumable) least(u *Upload) int {
	most, left := r.principal.Account.MaxUploadSize, int64(mostParts-1)
	if r.state.Length != UnknownLength {
		most = r.state.Length
	}
	if u.parts != nil {
		for _, part := range u.parts.Parts() {
			most, left = most-part.Bytes, left-1
		}
	}
	if left < 1 {
		return PartSize
	}
	return int(min(PartSize, max(leastPart, (most+left-1)/left)))
}

// save makes what is in parts, and a tail of the rest, the progress.
func (r *Resumable) save(ctx context.Context, u *Upload) error {
	rest := int64(u.buffer.size)
	if u.size == r.state.Progress.Received && rest == r.state.Progress.TailBytes {
		return nil // nothing came, and nothing is put off by it
	}
	tail := rest > 0 && rest < int64(r.least(u))
	if tail && r.state.Progress.Tail == "" {
		// The first tail is noted before it is put: one that could not be noted any more
		// would stay when the rest of the file came without one.
		first := r.state.Progress
		first.Tail = tailVariants[1]
		if err := r.replace(ctx, u, first); err != nil {
			return err
		}
	}
	next := r.next(u)
	next.Received, next.TailBytes, next.TailHash = u.size-rest, 0, nil
	if tail {
		next.Tail = tailVariants[0]
		if r.state.Progress.Tail == next.Tail {
			next.Tail = tailVariants[1]
		}
		body := u.buffer.body(u.buffer.size)
		defer func() { _ = body.Close() }()
		if err := u.put(ctx, Object{Key: u.key(next.Tail), Bytes: rest, MimeType: octetStream}, body); err != nil {
			return err
		}
		next.Received, next.TailBytes, next.TailHash = u.size, rest, u.buffer.sum()
	}
	return r.replace(ctx, u, next)
}

// next is the progress with what the pipeline knows.
func (r *Resumable) next(u *Upload) Progress {
	next := r.state.Progress
	next.MimeType = u.mimeType
	next.Digest, _ = u.digest.(encoding.BinaryMarshaler).MarshalBinary() // SHA-256 never fails
	if u.parts != nil {
		next.MultipartID, next.Parts = u.parts.ID(), u.parts.Parts()
	}
	return next
}

// replace makes next the progress, unless somebody else went on meanwhile.
func (r *Resumable) replace(ctx context.Context, u *Upload, next Progress) error {
	expires := r.service.now().Add(r.service.cfg.ResumableTTL)
	if err := r.service.store.SaveProgress(ctx, r.state.ItemID, r.state.Progress.Received, next, expires); err != nil {
		return err
	}
	r.state.Progress, r.state.Expires, r.state.Reserved = next, expires, u.reserved
	return nil
}

// Finish makes the draft of an upload that has received everything: it joins the
// parts, makes the derivatives and commits. It can be repeated, here and at any other
// replica, until it succeeds; then it gives the same item for ever.
func (r *Resumable) Finish(ctx context.Context) (Item, error) {
	if r.state.Item != nil {
		return *r.state.Item, nil
	}
	if !r.received() {
		return Item{}, fault.New(fault.Conflict, "the upload has received %d bytes only", r.state.Progress.Received)
	}
	if r.state.Progress.TailBytes > 0 {
		// The length was declared after the last byte had come, or whoever took that byte
		// did not come to join it.
		if _, err := r.Write(ctx, r.state.Progress.Received, strings.NewReader(""), nil); err != nil {
			return Item{}, err
		}
	}
	u := r.resume()
	// The bytes are stored, so the client waits and is not refused; it holds nothing that
	// other uploads need meanwhile.
	if err := u.await(ctx); err != nil {
		return Item{}, err
	}
	defer u.leaveQueue()
	if err := r.service.limits.acquire(ctx, r.service.limits.uploads, r.state.Scope.AccountID); err != nil {
		return Item{}, err
	}
	defer u.release()
	objects, err := r.join(ctx, u)
	if errors.Is(err, ErrPartsLost) {
		err = r.startOver(ctx, u, err)
	}
	if err != nil {
		return Item{}, err
	}
	item := u.item(r.state.Fields, objects)
	var tails []string
	if r.state.Progress.Tail != "" {
		tails = []string{u.key(tailVariants[0]), u.key(tailVariants[1])}
	}
	removal, err := r.service.store.CommitResumable(ctx, item, tails, r.service.now().Add(removalGrace))
	if fault.Is(err, fault.NotFound) { // another replica may have been first
		again, lost := r.service.store.FindResumable(ctx, r.state.Scope, r.state.ItemID)
		if lost != nil || again.Item == nil {
			return Item{}, err
		}
		r.state = again
		return *again.Item, nil
	}
	if err != nil {
		return Item{}, err
	}
	r.state.Item = &item
	if removal != nil {
		r.service.removeNow(ctx, *removal)
	}
	return item, nil
}

// join makes the object whole, if it is not yet, and the derivatives.
func (r *Resumable) join(ctx context.Context, u *Upload) (Objects, error) {
	p := r.state.Progress
	if len(p.Digest) > 0 {
		if err := u.digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.Digest); err != nil {
			return nil, fmt.Errorf("restore the hash of upload %s: %w", u.id, err)
		}
	}
	u.detect(r.state.Fields.MimeType, true)
	original := Object{Variant: Original, Key: u.key(Original), Bytes: p.Received, MimeType: u.mimeType, SHA256: u.digest.Sum(nil)}
	switch {
	case p.MultipartID != "":
		parts := r.service.objects.ResumeMultipart(u.scope.Bucket, original.Key, p.MultipartID, p.Parts)
		// It may have been joined before, by a replica that did not come to commit.
		if err := parts.Complete(ctx, u.mimeType); err != nil {
			return nil, err
		}
	case !p.Whole: // an empty file
		if err := u.put(ctx, original, u.buffer.body(0)); err != nil {
			return nil, err
		}
	}
	u.elsewhere = true
	derivatives, err := u.derive(ctx)
	return append(Objects{original}, derivatives...), err
}

// Cancel ends an upload that is not committed: its reservation is released and what
// reached S3 is removed. Conflict when it was committed: the item can be deleted.
func (r *Resumable) Cancel(ctx context.Context) error {
	if r.state.Item != nil {
		return fault.New(fault.Conflict, "the upload is complete: delete the item instead")
	}
	removal, err := r.service.store.AbandonUpload(ctx, r.state.ItemID, r.state.Scope, uploadKeys(r.state.ItemID), r.service.now().Add(removalGrace))
	if err != nil {
		return err
	}
	if removal == nil {
		return fault.New(fault.Conflict, "the upload is complete: delete the item instead")
	}
	r.service.tryRemoval(ctx, *removal) // and once more by the purge, when nothing can be on its way
	return nil
}
