package upload

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Locks lock resumable uploads by name, for one request at a time. postgres.UploadLocks implements it.
type Locks interface {
	// Lock takes the lock. If another request holds it, Lock calls beforeWait; if that returns
	// nil, Lock asks the holder to release the lock, and waits until ctx ends: then the fault
	// is Busy. requestRelease is called when another request asks for the lock: possibly
	// often, from any goroutine and after unlock. It must return at once.
	Lock(ctx context.Context, name uuid.UUID, requestRelease func(), beforeWait func() error) (unlock func(), err error)
}

// LockName returns the name of the lock of an app's upload. It contains the app, so requests of other apps
// cannot delay those of the upload's app.
func LockName(app, upload uuid.UUID) uuid.UUID { return uuid.NewSHA1(app, upload[:]) }

// Running is a resumable upload that is not complete, as a list has it.
type Running struct {
	ID uuid.UUID
	// Length is UnknownLength until the client declares it. Received is how much of it has arrived.
	Length, Received int64
	Fields           media.Fields
	// CreatedAt is when the upload was created, ExpiresAt when it ends unless more of it arrives.
	CreatedAt, ExpiresAt time.Time
}

// RunningPage is a part of the list of running uploads, the newest first. It can have fewer uploads than the limit, or
// none, and a next part.
type RunningPage struct {
	Uploads []Running
	// Next is the position of the next part; the zero id is that of no more.
	Next uuid.UUID
}

// RunningQuery selects running uploads.
type RunningQuery struct {
	// Capability selects those that it created; nil = those of the whole app.
	Capability *Capability
	// After is the position of the part before, the zero id that of the first part.
	After uuid.UUID
	Limit int
}

// MaxExamined bounds the uploads that one page of a list examines: it reads past those that have expired, and past
// those of other capabilities. The next page goes on behind them, so every upload is on a page.
const MaxExamined = 5000

// List returns uploads of the principal's app that are neither complete nor expired.
func (s *Service) List(ctx context.Context, p account.Principal, q RunningQuery) (RunningPage, error) {
	if err := media.CheckLimit(q.Limit); err != nil {
		return RunningPage{}, err
	}
	return s.deps.Store.ListResumables(ctx, media.ScopeOf(p), q, s.deps.Now())
}

// ErrNotFound is the fault of an upload that does not exist, has ended, or belongs to another app or
// capability: callers cannot tell these apart.
var ErrNotFound = fault.New(fault.NotFound, "there is no such upload")

// End ends an upload of the principal's app that is not complete: with a capability, one that this created. Its
// room is free at once. A request that is sending the upload is interrupted, and what reached S3 is removed when
// that has stopped. Conflict when the upload is complete: the item can be deleted.
func (s *Service) End(ctx context.Context, p account.Principal, capability *Capability, id uuid.UUID) error {
	found, err := s.FindResumable(ctx, p, id)
	if err == nil && capability != nil && !capability.Is(found.state.Capability) {
		err = ErrNotFound
	}
	if err == nil {
		err = found.cancel(ctx, func(remove func(context.Context)) { s.afterLastWrite(ctx, p, id, remove) })
	}
	if fault.Is(err, fault.NotFound) {
		return ErrNotFound
	}
	return err
}

// afterLastWrite calls do when no request writes to the upload any more, even if the client of ctx has left. The
// row of the upload is gone, so none can begin. If the request that holds the lock does not stop in time, do is
// not called: the purge removes what it wrote.
func (s *Service) afterLastWrite(ctx context.Context, p account.Principal, id uuid.UUID, do func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	waiting, cancel := context.WithTimeout(ctx, s.deps.LockTimeout)
	defer cancel()
	unlock, err := s.deps.Locks.Lock(waiting, LockName(p.App.ID, id), func() {}, func() error { return nil })
	if err != nil {
		s.deps.Log.WarnContext(ctx, "cleanup deferred to purge", "stage", "wait for the last write to an upload", "item", id, "error", err)
		return
	}
	defer unlock()
	removing, cancel := s.deps.Items.RemovalContext(ctx)
	defer cancel()
	do(removing)
}
