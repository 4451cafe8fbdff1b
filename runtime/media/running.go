package media

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// UploadLocks lock resumable uploads by name, for one request at a time. postgres.UploadLocks implements it.
type UploadLocks interface {
	// Lock takes the lock. If another request holds it, Lock calls beforeWait; if that returns
	// nil, Lock asks the holder to release the lock, and waits until ctx ends: then the fault
	// is Busy. requestRelease is called when another request asks for the lock: possibly
	// often, from any goroutine and after unlock. It must return at once.
	Lock(ctx context.Context, name uuid.UUID, requestRelease func(), beforeWait func() error) (unlock func(), err error)
}

// UploadLockName returns the name of the lock of an app's upload. It contains the app, so requests of other apps
// cannot delay those of the upload's app.
func UploadLockName(app, upload uuid.UUID) uuid.UUID { return uuid.NewSHA1(app, upload[:]) }

// RunningUpload is a resumable upload that is not complete, as a list has it.
type RunningUpload struct {
	ID uuid.UUID
	// Length is UnknownLength until the client declares it. Received is how much of it has arrived.
	Length, Received int64
	Fields           Fields
	// CreatedAt is when the upload was created, ExpiresAt when it ends unless more of it arrives.
	CreatedAt, ExpiresAt time.Time
}

// RunningPage is a part of the list of running uploads, the newest first. It can have fewer uploads than the limit, or
// none, and a next part.
type RunningPage struct {
	Uploads []RunningUpload
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

// ExaminedUploads bounds the uploads that one page of a list examines: it reads past those that have expired, and past
// those of other capabilities. The next page goes on behind them, so every upload is on a page.
const ExaminedUploads = 5000

// RunningUploads lists and ends resumable uploads for callers that are not sending them. It is safe for concurrent
// use.
type RunningUploads struct {
	service     *Service
	locks       UploadLocks
	lockTimeout time.Duration
}

// NewRunningUploads returns the running uploads of a service. Their requests hold locks; lockTimeout is how long
// End waits for one.
func NewRunningUploads(service *Service, locks UploadLocks, lockTimeout time.Duration) *RunningUploads {
	return &RunningUploads{service: service, locks: locks, lockTimeout: lockTimeout}
}

// List returns uploads of the principal's app that are neither complete nor expired.
func (u *RunningUploads) List(ctx context.Context, p account.Principal, q RunningQuery) (RunningPage, error) {
	if q.Limit < 1 || q.Limit > MaxLimit {
		return RunningPage{}, errLimit()
	}
	return u.service.store.ListResumables(ctx, ScopeOf(p), q, u.service.now())
}

// ErrUploadNotFound is the fault of an upload that does not exist, has ended, or belongs to another app or
// capability: callers cannot tell these apart.
var ErrUploadNotFound = fault.New(fault.NotFound, "there is no such upload")

// End ends an upload of the principal's app that is not complete: with a capability, one that this created. Its
// room is free at once. A request that is sending the upload is interrupted, and what reached S3 is removed when
// that has stopped. Conflict when the upload is complete: the item can be deleted.
func (u *RunningUploads) End(ctx context.Context, p account.Principal, capability *Capability, id uuid.UUID) error {
	found, err := u.service.FindResumable(ctx, p, id)
	if err == nil && capability != nil && !capability.Is(found.state.Capability) {
		err = ErrUploadNotFound
	}
	if err == nil {
		err = found.cancel(ctx, func(remove func(context.Context)) { u.afterLastWrite(ctx, p, id, remove) })
	}
	if fault.Is(err, fault.NotFound) {
		return ErrUploadNotFound
	}
	return err
}

// afterLastWrite calls do when no request writes to the upload any more, even if the client of ctx has left. The
// row of the upload is gone, so none can begin. If the request that holds the lock does not stop in time, do is
// not called: the purge removes what it wrote.
func (u *RunningUploads) afterLastWrite(ctx context.Context, p account.Principal, id uuid.UUID, do func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	waiting, cancel := context.WithTimeout(ctx, u.lockTimeout)
	defer cancel()
	unlock, err := u.locks.Lock(waiting, UploadLockName(p.App.ID, id), func() {}, func() error { return nil })
	if err != nil {
		u.service.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "wait for the last write to an upload", "item", id, "error", err)
		return
	}
	defer unlock()
	removing, cancel := context.WithTimeout(ctx, u.service.cfg.DeleteTimeout)
	defer cancel()
	do(removing)
}
