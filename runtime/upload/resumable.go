package upload

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Phase is a state of a resumable upload.
type Phase int

// The phases of a resumable upload. One that was ended has no state any more.
const (
	Receiving Phase = iota
	Received
	Committed
)

// Resumable is an upload that arrives in any number of requests, at any replica. Its state
// is a row in the database; a Resumable is one request's view of it. Only one request at a
// time may use an upload: the edge holds a lock for that. If the lock is lost, SaveProgress
// succeeds for one writer and fails for the other.
//
//	CreateResumable
//	       |
//	       v
//	 +-----------+  Append: bytes become durable, as parts
//	 | Receiving |--.  or as the incomplete part
//	 |           |<-'
//	 |           |<------------------------------------.
//	 +-----------+                                     | S3 has lost the parts:
//	    |     |                                        | Received = 0
//	    |     | Append, DeclareLength:                 |
//	    |     | Received == Length                     |
//	    |     v                                        |
//	    |  +----------+  Finish fails: the next        |
//	    |  | Received |--. request repeats it          |
//	    |  |          |<-'                             |
//	    |  |          |--------------------------------'
//	    |  +----------+
//	    |     |     | Finish: complete the object, make
//	    |     |     | derivatives, commit the draft
//	    |     |     v
//	    |     |  +-----------+
//	    |     |  | Committed |  until it expires or the item is deleted
//	    |     |  +-----------+
//	    v     v
//	 ended by Cancel, or by the purge after the lease
//
// What counts as received is durable. A response reports that an upload is complete only when
// it is Committed. A Resumable is not safe for concurrent use.
type Resumable struct {
	service     *Service
	account     account.Account
	state       ResumableState // without Reserved and Expires, which reservation has
	reservation *reservation
	onSlow      func(why error)
}

func (s *Service) newResumable(p account.Principal, state ResumableState) *Resumable {
	state.Scope.Actor = p.Actor
	return &Resumable{service: s, account: p.Account, state: state, reservation: &reservation{
		store: s.deps.Store, now: s.deps.Now, itemID: state.ItemID, scope: state.Scope, lease: s.cfg.ResumableTTL,
		opened: true, bytes: state.Reserved, expires: state.Expires,
	}}
}

// CreateResumable records an upload of length bytes, or of UnknownLength, and reserves
// them. metadata is the text that the fields were read from; it is stored unchanged. Faults
// are those of Begin, Invalid for fields out of bounds, and TooLarge for too much metadata.
func (s *Service) CreateResumable(ctx context.Context, p account.Principal, length int64, fields media.Fields, metadata string) (*Resumable, error) {
	return s.CreateResumableWith(ctx, p, nil, length, fields, metadata)
}

// CreateResumableWith is CreateResumable within a capability, which restricts the file and sets fields
// of it; nil = none. The upload may go on after the capability has expired.
func (s *Service) CreateResumableWith(ctx context.Context, p account.Principal, capability *Capability, length int64, fields media.Fields, metadata string) (*Resumable, error) {
	if len(metadata) > MaxMetadata {
		return nil, fault.New(fault.TooLarge, "the metadata must be at most %d bytes", MaxMetadata)
	}
	fields, err := capability.Apply(fields)
	if err != nil {
		return nil, err
	}
	if err := fields.Validate(); err != nil {
		return nil, err
	}
	if err := cmp.Or(s.checkAccount(p.Account, length), capability.checkSize(length)); err != nil {
		return nil, err
	}
	if length < UnknownLength {
		return nil, fault.New(fault.Invalid, "the length must not be negative")
	}
	id, err := s.deps.Store.Cell().NewID()
	if err != nil {
		return nil, err
	}
	state := ResumableState{ItemID: id, Scope: media.ScopeOf(p), Capability: capability, Length: length, Fields: fields.WithDefaults(), Metadata: metadata, Reserved: max(0, length),
		Expires: s.deps.Now().Add(s.cfg.ResumableTTL)}
	if err := s.deps.Store.OpenResumable(ctx, state); err != nil {
		return nil, notStored(err)
	}
	s.metrics.created.Inc()
	return s.newResumable(p, state), nil
}

// FindResumable returns an upload of the principal's app, unchanged. It returns NotFound for
// any other upload, and once the upload has expired. A request that found it before may
// continue, and received bytes renew the lease. Before its State is sent to a client, call
// FinishReceived.
func (s *Service) FindResumable(ctx context.Context, p account.Principal, id uuid.UUID) (*Resumable, error) {
	state, err := s.deps.Store.FindResumable(ctx, media.ScopeOf(p), id)
	if err != nil {
		return nil, err
	}
	if state.expired(s.deps.Now()) {
		return nil, fault.New(fault.NotFound, "the upload has expired")
	}
	return s.newResumable(p, state), nil
}

// FinishReceived finishes an upload that has received everything; any other stays as it is.
// After it, the State may be sent to clients.
func (r *Resumable) FinishReceived(ctx context.Context) error {
	if r.state.Phase() != Received {
		return nil
	}
	// Finish may have had to reset the progress: then the upload is receiving again.
	if _, err := r.Finish(ctx); err != nil && r.state.Phase() == Received {
		return err
	}
	return nil
}

// OnSlow registers how to abort a read of the file from another goroutine, as for a
// Single. What has arrived is kept.
func (r *Resumable) OnSlow(abort func(why error)) { r.onSlow = abort }

// State returns the state of the upload.
func (r *Resumable) State() ResumableState {
	state := r.state
	state.Reserved, state.Expires = r.reservation.bytes, r.reservation.expires
	return state
}

// DeclareLength sets a length that was unknown, and reserves the rest of it.
func (r *Resumable) DeclareLength(ctx context.Context, length int64) error {
	switch {
	case length < r.state.Progress.Received:
		return fault.New(fault.Invalid, "the length is less than what was received")
	case r.state.Capability.checkSize(length) != nil:
		return r.state.Capability.checkSize(length)
	case length > r.account.MaxUploadSize:
		return tooLarge(r.account)
	}
	if err := r.reservation.reserve(ctx, length); err != nil {
		return err
	}
	if err := r.service.deps.Store.SetLength(ctx, r.state.Scope, r.state.ItemID, length); err != nil {
		return err
	}
	r.state.Length = length
	return nil
}

// newTransfer returns a transfer that continues the upload. It owns nothing yet.
func (r *Resumable) newTransfer() *transfer {
	t := r.service.newTransfer(r.account, r.reservation, max(0, r.state.Length), r.partSize())
	t.size, t.mimeType, t.rate.abort = r.state.Progress.Received, r.state.Progress.MimeType, r.onSlow
	t.head, t.capability = r.state.Progress.Head, r.state.Capability
	return t
}

// saveInterval is how many bytes Append sends before it saves the progress again. A process that is
// killed loses no more than that and what it buffers.
const saveInterval = 3 * PartSize

// Append receives file, which begins at offset, until it ends or fails. size is its size, negative if
// it is not known. Append returns how many of its bytes are durable. Without verify, whatever arrived
// before a failure counts. With it, the bytes count only if file has ended and verify returns nil then.
func (r *Resumable) Append(ctx context.Context, offset int64, file io.Reader, size int64, verify func() error) (n int64, err error) {
	before := r.state.Progress.Received
	if r.state.Phase() == Committed || offset != before {
		return 0, offsetConflict(before)
	}
	if err := media.CheckWritable(r.service.deps.Objects); err != nil {
		return 0, err
	}
	if before > 0 && r.state.Phase() == Receiving { // Finish appends nothing to an upload that has received everything
		r.service.metrics.resumed.Inc()
	}
	t := r.newTransfer()
	defer t.close()
	if err := r.restore(ctx, t); err != nil {
		return 0, err
	}
	defer func() {
		if sendErr := t.awaitPart(); err == nil {
			err = sendErr
		}
		switch {
		case errors.Is(err, media.ErrPartsLost):
			err = r.resetProgress(ctx, err)
		case err != nil && verify == nil && !fault.Is(err, fault.Conflict):
			if unsaved := r.saveSent(ctx, t); unsaved != nil {
				err = errors.Join(err, unsaved)
			}
		}
		n = max(0, r.state.Progress.Received-before)
		r.service.metrics.received.Add(float64(n))
	}()
	defer t.startRateMonitor()()
	limit := r.maxLength()
	file = io.LimitReader(file, limit-t.size+1) // the byte over the limit shows that there is too much
	for {
		next, most := r.nextPart(t, offset, size)
		t.setNext(next)
		ended, readErr := t.fill(ctx, file, most, func() error { return nil })
		if t.size > limit {
			return 0, r.tooLong()
		}
		if readErr != nil && (verify != nil || t.writeUncertain) { // the latter is of a part that was sent
			return 0, readErr
		}
		t.detectType(r.state.Fields.MimeType, t.size == r.state.Length)
		t.readHead()
		if err := t.checkType(); err != nil {
			return 0, r.reject(ctx, err, verify == nil)
		}
		if ended || readErr != nil {
			return 0, errors.Join(readErr, r.persist(ctx, t, verify))
		}
		if err := t.awaitPart(); err != nil {
			return 0, err
		}
		if err := r.startMultipart(ctx, t); err != nil {
			return 0, err
		}
		sent := r.sentProgress(t)
		if err := t.beginPart(ctx, next); err != nil {
			return 0, err
		}
		saved := r.state.Progress.Received
		if verify != nil || sent.Received <= saved || saved > before && sent.Received-saved < saveInterval {
			continue
		}
		// What is left in the buffer is not stored while more arrives.
		if err := r.saveProgress(ctx, sent); err != nil {
			return 0, err
		}
	}
}

// maxLength returns how long the file may become.
func (r *Resumable) maxLength() int64 {
	if r.state.Length == UnknownLength {
		return r.state.Capability.MaxSize(r.account.MaxUploadSize)
	}
	return r.state.Length
}

// tooLong returns the fault of a file that is longer than maxLength.
func (r *Resumable) tooLong() error {
	if r.state.Length == UnknownLength {
		return cmp.Or(r.state.Capability.checkSize(r.maxLength()+1), tooLarge(r.account))
	}
	return fault.New(fault.TooLarge, "there is more than the length that was declared, %d bytes", r.state.Length)
}

func offsetConflict(received int64) error {
	return fault.New(fault.Conflict, "the upload has received %d bytes", received)
}

// Finish makes the draft of an upload that has received everything: it completes the
// object, makes the derivatives and commits. It can be repeated, at any replica, until it
// succeeds, and returns the same item from then on.
func (r *Resumable) Finish(ctx context.Context) (media.Item, error) {
	switch r.state.Phase() {
	case Committed:
		return *r.state.Item, nil
	case Receiving:
		return media.Item{}, fault.New(fault.Conflict, "the upload has received %d bytes only", r.state.Progress.Received)
	case Received:
	}
	if err := media.CheckWritable(r.service.deps.Objects); err != nil {
		return media.Item{}, err
	}
	if r.state.Progress.IncompleteBytes > 0 {
		// The length was declared after the last byte had arrived, or the request that
		// received that byte was aborted before it stored the last part.
		if _, err := r.Append(ctx, r.state.Progress.Received, strings.NewReader(""), 0, nil); err != nil {
			return media.Item{}, err
		}
	}
	t := r.newTransfer()
	defer t.close()
	// The bytes are stored, so the request waits for an image slot instead of being
	// rejected. It holds no upload slot while it waits.
	if err := r.restoreDigest(t); err != nil {
		return media.Item{}, err
	}
	t.detectType(r.state.Fields.MimeType, true)
	if err := t.checkType(); err != nil {
		return media.Item{}, r.reject(ctx, err, true)
	}
	if err := t.waitImageSlot(ctx); err != nil {
		return media.Item{}, err
	}
	if err := t.acquireUploadSlot(ctx); err != nil {
		return media.Item{}, err
	}
	objects, err := r.assemble(ctx, t)
	if errors.Is(err, media.ErrPartsLost) {
		err = r.resetProgress(ctx, err)
	}
	if err != nil {
		return media.Item{}, err
	}
	return r.commit(ctx, t.capability.complete(t.item(r.state.Fields, objects)))
}

// assemble completes the object, if it is not complete yet, and makes the derivatives.
func (r *Resumable) assemble(ctx context.Context, t *transfer) (media.Objects, error) {
	r.restoreMultipart(t)
	switch {
	case t.multipart != nil:
		// Another replica may have completed it, and may have failed before it committed.
		if err := t.completeMultipart(ctx); err != nil {
			return nil, err
		}
	case !r.state.Progress.SinglePut: // an empty file
		if err := t.putWhole(ctx); err != nil {
			return nil, err
		}
	}
	derivatives, err := t.derive(ctx)
	if err != nil {
		return nil, err
	}
	return append(media.Objects{t.original()}, derivatives...), nil
}

// commit makes the draft.
func (r *Resumable) commit(ctx context.Context, item media.Item) (media.Item, error) {
	var incomplete []string
	if r.state.Progress.IncompletePart != "" {
		incomplete = incompletePartKeys(item.ID)
	}
	release, err := r.service.deps.Store.SpendBytes(ctx, r.reservation.scope, item.Objects[0].Bytes)
	if err != nil {
		return media.Item{}, err
	}
	removal, err := r.service.deps.Store.CommitResumable(ctx, item, r.reservation.scope.Actor, incomplete, r.service.deps.Now().Add(media.RemovalGrace))
	if err != nil && fault.From(err).Kind != fault.Internal && fault.From(err).Kind != fault.Unavailable { // otherwise it may be committed
		release(ctx)
	}
	if fault.Is(err, fault.NotFound) { // another replica may have committed it
		state, findErr := r.service.deps.Store.FindResumable(ctx, r.state.Scope, r.state.ItemID)
		if findErr != nil || state.Item == nil {
			return media.Item{}, err
		}
		r.state = state
		return *state.Item, nil
	}
	if err != nil {
		return media.Item{}, err
	}
	r.state.Item = &item
	r.service.draftMade(resumableUpload, item)
	if removal != nil {
		r.service.deps.Items.RemoveNow(ctx, *removal)
	}
	return item, nil
}

// reject returns the fault of a file whose type the capability does not permit. It ends the upload,
// which can never become an item, unless the bytes may have been damaged on their way.
func (r *Resumable) reject(ctx context.Context, why error, intact bool) error {
	if intact {
		if err := r.Cancel(ctx); err != nil {
			r.service.deps.Log.WarnContext(ctx, "cleanup deferred to purge", "stage", "end rejected upload", "item", r.state.ItemID, "error", err)
		}
	}
	return why
}

// Cancel ends an upload that is not committed: its reservation is released and what
// reached S3 is removed. Conflict when it is committed: the item can be deleted.
func (r *Resumable) Cancel(ctx context.Context) error {
	return r.cancel(ctx, func(remove func(context.Context)) { remove(ctx) })
}

// cancel is Cancel. It passes what removes the objects to afterwards, when the row of the upload is gone.
func (r *Resumable) cancel(ctx context.Context, afterwards func(remove func(context.Context))) error {
	if r.state.Phase() == Committed {
		return errCommitted()
	}
	removal, err := r.service.deps.Store.AbandonUpload(ctx, r.state.ItemID, r.state.Scope, media.UploadKeys(r.state.ItemID), r.service.deps.Now().Add(media.RemovalGrace))
	if err != nil {
		return err
	}
	if removal == nil { // another replica has committed it
		return errCommitted()
	}
	r.service.metrics.canceled.Inc()
	// The removal stays queued: the purge repeats it when no write can be in flight any more.
	afterwards(func(ctx context.Context) { r.service.deps.Items.TryRemoval(ctx, *removal) })
	return nil
}

func errCommitted() error {
	return fault.New(fault.Conflict, "the upload is complete: delete the item instead")
}
