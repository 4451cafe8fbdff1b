package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// DerivativesWork is the kind of the tasks that make the derivatives of an item after its upload was answered. The key of a task is the
// item. What makes or restores such an item adds its task, by a trigger of the database.
const DerivativesWork work.Kind = "derivatives"

// PendingItem is an item whose derivatives are to be made.
type PendingItem struct {
	Item   media.Item
	Bucket string
	// KeepLocation is set if the account keeps the places at which files were made.
	KeepLocation bool
	// Resting is set while its account is suspended or closed: nothing is made then.
	Resting bool
	// Claimed is set while a process makes them.
	Claimed bool
}

// MadeDerivatives are the derivatives of an item, which a writer has stored. Without any, the item has none.
type MadeDerivatives struct {
	AccountID, ItemID uuid.UUID
	Objects           media.Objects
	Facts             media.Facts
	Writer            *Writer // nil without objects
}

// DerivativesStore keeps items whose derivatives are to be made. PostgreSQL implements it. Errors are faults.
type DerivativesStore interface {
	// PendingItem returns an item whose derivatives are to be made; ErrNotPending if they were made, or there is no such item.
	PendingItem(ctx context.Context, accountID, itemID uuid.UUID) (PendingItem, error)
	// FinishDerivatives adds derivatives to their item, increments its version, and takes their bytes under the cap, in one transaction.
	// Deleted items that could be restored end where their room is needed. Nothing was changed after ErrNotPending, QuotaExceeded when the
	// account has no room, and a fault of ErrWriterEnded. After any other error it may have been changed, or may still be.
	FinishDerivatives(ctx context.Context, made MadeDerivatives) error
}

// ErrNotPending is the error for an item of which no derivatives are to be made: they were made, or it was deleted.
var ErrNotPending = errors.New("no derivatives of the item are to be made")

// errNoLease is the error of an attempt in a process that may not store what is recorded afterwards.
var errNoLease = fault.New(fault.Unavailable, "the process has no lease")

// errNoRoom is the error of a request whose derivatives the cap of the account has no room for.
var errNoRoom = &fault.Error{Kind: fault.Unavailable, Public: "the storage cap of the account has no room for the thumbnail", RetryAfter: fullFor}

// errNobody is the error of a request whose process may not make the derivatives, while no other does.
var errNobody = &fault.Error{Kind: fault.Unavailable, Public: "the thumbnail cannot be made at present", RetryAfter: nobodyPause}

// DerivativesDeps are the dependencies of a Derivatives.
type DerivativesDeps struct {
	Store   DerivativesStore
	Uploads *Service
	// RunNow is work.Runner.RunNow.
	RunNow func(ctx context.Context, kind work.Kind, key uuid.UUID) (ran bool, err error)
	// Workers is how many image workers the process has, and Timeout how long one may take for an image.
	Workers int
	Timeout time.Duration
	// Ready returns an error while nothing may be stored.
	Ready func() error
	Log   *slog.Logger
}

// Derivatives makes the derivatives of items after their uploads were answered (docs/decisions/0044). It is the worker of DerivativesWork,
// and makes those at once that a request waits for. It is safe for concurrent use.
type Derivatives struct {
	deps    DerivativesDeps
	flights singleflight.Group
	// full are the accounts whose cap had no room for a thumbnail. An upload that did not fit says nothing of that.
	full *fullAccounts
	// slots has the slots of the queue of requests, by the item for which they wait.
	slots sync.Map
	// working has a value for each attempt, whose derivatives are in memory until they are stored. Tasks that no request waits for have
	// half of the room at most.
	working chan struct{}
	// unclaimedTimeout is nobodyWait but in tests.
	unclaimedTimeout time.Duration
}

// NewDerivatives returns a Derivatives that uses deps.
func NewDerivatives(deps DerivativesDeps) *Derivatives {
	return &Derivatives{deps: deps, full: newFullAccounts(deps.Uploads.deps.Now), working: make(chan struct{}, 2*deps.Workers), unclaimedTimeout: nobodyWait}
}

const (
	// An attempt that failed is repeated after derivativesBackoff, and then after pauses that double up to maxDerivativesBackoff.
	derivativesBackoff    = 5 * time.Second
	maxDerivativesBackoff = 10 * time.Minute
	// maxDerivativesAttempts is after how many attempts an item has no derivatives on which image workers fail, or whose file is lost. Those
	// that fail since a store or the workers are not available are repeated until they succeed.
	maxDerivativesAttempts = 3
	// noRoomPause is when an account is looked at again whose cap had no room, and restingPause one that is suspended or closed.
	noRoomPause  = 10 * time.Minute
	restingPause = time.Minute
	// storeTime is how long the objects of an attempt may take to be stored and recorded.
	storeTime = 2 * time.Minute
	// nobodyPause is when a request may be repeated that no process could serve.
	nobodyPause = 2 * time.Second
	// A request that waits for another process looks after minLook, and then after pauses that double up to maxLook.
	minLook = 25 * time.Millisecond
	maxLook = 500 * time.Millisecond
	// nobodyWait is how long it waits for a process that can claim the task: one that was started now has its lease after a moment.
	nobodyWait = 5 * time.Second
)

// Policy returns how the tasks run.
func (d *Derivatives) Policy() work.Policy {
	return work.Policy{Slots: d.deps.Workers, Timeout: d.timeout(), Leased: true, MinBackoff: derivativesBackoff, MaxBackoff: maxDerivativesBackoff, Ready: d.deps.Ready}
}

// timeout bounds an attempt: a job of the image workers has two attempts.
func (d *Derivatives) timeout() time.Duration { return 2*d.deps.Timeout + storeTime }

// Work makes the derivatives of an item, by the settings that its account has now.
func (d *Derivatives) Work(ctx context.Context, task work.Task) error {
	found, err := d.deps.Store.PendingItem(ctx, task.AccountID, task.Key)
	switch {
	case errors.Is(err, ErrNotPending):
		return nil
	case err != nil:
		return err
	case found.Resting:
		return work.SnoozeAccount(restingPause)
	case d.full.has(task.AccountID):
		return work.SnoozeAccount(fullFor)
	}
	select {
	case d.working <- struct{}{}:
		defer func() { <-d.working }()
	case <-ctx.Done():
		return ctx.Err()
	}
	original, _ := found.Item.Objects.Find(media.Original)
	a := derivation{Derivatives: d, PendingItem: found, original: original, attempt: task.Attempt,
		scope: media.Scope{AccountID: found.Item.AccountID, AppID: found.Item.AppID, Bucket: found.Bucket}}
	err = a.run(ctx)
	switch {
	case errors.Is(err, ErrNotPending):
		return nil
	case fault.Is(err, fault.QuotaExceeded):
		d.full.add(task.AccountID)
		d.deps.Log.InfoContext(ctx, "the storage cap has no room for the thumbnail of an item", "item", task.Key, "account", task.AccountID, "pause", noRoomPause)
		return work.SnoozeAccount(noRoomPause)
	}
	return err
}

// MakeNow makes the derivatives of an item for a request, or waits until another request or process has made them. It returns nil when the
// item has those that can be made of it, or is gone: the caller reads it again. admit is called before they are made for the request, at
// most once, and not while another request of this process has them made; nil = the request is admitted.
//
// Faults: that of admit; Busy, with RetryAfter, if the queue of requests is full; Unavailable, with RetryAfter, if the cap of the account has
// no room, or this process has no lease and no other makes them; Unavailable if a store, or the image workers, cannot be used, or ctx ends.
func (d *Derivatives) MakeNow(ctx context.Context, item media.Item, admit func() error) error {
	admit = media.AdmitOnce(admit)
	for rejections := 0; ; {
		begun := false
		made := d.flights.DoChan(item.ID.String(), func() (any, error) {
			begun = true
			working, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.timeout())
			defer cancel()
			return nil, d.makeNow(working, item, admit)
		})
		select {
		case result := <-made:
			if begun || !errors.As(result.Err, new(media.NotAdmitted)) {
				return result.Err
			}
		case <-ctx.Done():
			return fault.Wrap(ctx.Err(), fault.Unavailable, "the request ended before the thumbnail was made")
		}
		// The limit was that of another request: one of those that wait is the next. After some rejections each asks for itself first.
		if rejections++; rejections > media.MaxRejections {
			if err := admit(); err != nil {
				return err
			}
		}
	}
}

// makeNow is MakeNow for the requests of this process.
func (d *Derivatives) makeNow(ctx context.Context, item media.Item, admit func() error) error {
	claimed := time.Now()
	for pause := minLook; ; pause = min(2*pause, maxLook) {
		found, err := d.deps.Store.PendingItem(ctx, item.AccountID, item.ID)
		switch {
		case errors.Is(err, ErrNotPending), err == nil && found.Resting:
			return nil
		case err != nil:
			return err
		case d.full.has(item.AccountID):
			return errNoRoom
		}
		ran, err := d.runNow(ctx, item, admit)
		switch {
		case fault.Is(err, fault.Busy), errors.As(err, new(media.NotAdmitted)):
			return err
		case ran && err == nil, ran && d.full.has(item.AccountID):
			continue
		case err != nil:
			return fault.Wrap(err, fault.Unavailable, "the thumbnail could not be made now")
		case found.Claimed:
			claimed = time.Now()
		default:
			if time.Since(claimed) > d.unclaimedTimeout {
				return errNobody
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fault.Wrap(ctx.Err(), fault.Unavailable, "the thumbnail was not made in time")
		}
	}
}

// runNow runs the task of an item with a slot of the queue of requests.
func (d *Derivatives) runNow(ctx context.Context, item media.Item, admit func() error) (ran bool, err error) {
	slot, err := d.deps.Uploads.deps.Deriver.ReserveRender(item.AccountID)
	if err != nil {
		return false, err
	}
	defer slot.Release()
	if err := admit(); err != nil {
		return false, err
	}
	d.slots.Store(item.ID, slot)
	defer d.slots.Delete(item.ID)
	return d.deps.RunNow(ctx, DerivativesWork, item.ID)
}

// derivation is an attempt at the derivatives of an item.
type derivation struct {
	*Derivatives
	PendingItem
	original media.Object
	scope    media.Scope
	attempt  int // from 1
}

// run makes the derivatives, stores them, and adds them to the item. A file of which nothing can be made has none.
func (a *derivation) run(ctx context.Context) error {
	service := a.deps.Uploads
	layers, err := service.deps.Settings.Get(ctx, a.Item.AccountID)
	if err != nil {
		return err
	}
	job := media.ImageJob{ItemID: a.Item.ID, AccountID: a.Item.AccountID, MimeType: a.original.MimeType, Bytes: a.original.Bytes, Source: a.open, Settings: layers.Effective(), KeepLocation: a.KeepLocation}
	if slot, ok := a.slots.Load(a.Item.ID); ok {
		job.Slot, job.Requested = slot.(media.ImageSlot), true //nolint:forcetypeassert // nothing else is in the map
	}
	facts, made, err := service.deps.Deriver.Derive(ctx, job)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !a.isFinal(err):
		return err
	case err != nil:
		a.deps.Log.WarnContext(ctx, "derivatives are missing", "item", a.Item.ID, "account", a.Item.AccountID, "type", a.original.MimeType,
			"bytes", a.original.Bytes, "made", variantNames(made), "error", err)
	}
	result := MadeDerivatives{AccountID: a.Item.AccountID, ItemID: a.Item.ID, Facts: facts}
	if len(made) == 0 {
		return a.deps.Store.FinishDerivatives(ctx, result)
	}
	return a.store(ctx, result, made)
}

// isFinal reports whether the item has what was made, because a later attempt would make no more.
func (a *derivation) isFinal(err error) bool {
	switch {
	case errors.Is(err, media.ErrRejected):
		return true
	case fault.Is(err, fault.Unavailable), errors.Is(err, installation.ErrNoBucket): // an administrator can undo that
		return false
	}
	return a.attempt >= maxDerivativesAttempts && (errors.Is(err, media.ErrWorkerFailed) || fault.Is(err, fault.NotFound))
}

// open opens the file.
func (a *derivation) open(ctx context.Context) (io.ReadCloser, error) {
	return a.deps.Uploads.deps.Objects.Open(ctx, a.Bucket, a.original.Key, 0, a.original.Bytes)
}

// store stores derivatives, and adds them to the item. If there is no room for all, the file stays the original, with a thumbnail if there
// is room for that.
func (a *derivation) store(ctx context.Context, result MadeDerivatives, made []media.Derivative) error {
	service := a.deps.Uploads
	writer, err := service.writers.beginDerivatives(ctx, a.scope, a.Item.ID)
	if err != nil {
		return err
	}
	if writer == nil {
		return errNoLease
	}
	result.Writer = writer.Writer
	attempt := uuid.New()
	left := abandoned{writer: writer, itemID: a.Item.ID, scope: a.scope}
	for _, derivative := range made {
		sum := sha256.Sum256(derivative.Data)
		object := media.Object{Variant: derivative.Variant, Key: media.DerivativeKey(a.Item.ID, derivative.Variant, attempt, writer.Number),
			Bytes: int64(len(derivative.Data)), MimeType: derivative.MimeType, SHA256: sum[:]}
		left.keys = append(left.keys, object.Key)
		if err := service.deps.Objects.Put(ctx, a.Bucket, object.Key, object.MimeType, bytes.NewReader(derivative.Data), object.Bytes); err != nil {
			a.abandon(ctx, left)
			return notStored(err)
		}
		result.Objects = append(result.Objects, object)
	}
	err = a.deps.Store.FinishDerivatives(ctx, result)
	if fault.Is(err, fault.QuotaExceeded) && len(result.Objects) > 1 && result.Objects[0].Variant == media.Thumbnail {
		a.deps.Log.InfoContext(ctx, "the storage cap has no room for the conversion of an item: its file stays the original", "item", a.Item.ID, "account", a.Item.AccountID)
		service.writers.use(writer)
		a.abandon(ctx, abandoned{writer: writer, itemID: a.Item.ID, scope: a.scope, keys: left.keys[1:]})
		result.Objects, left.keys = result.Objects[:1], left.keys[:1]
		err = a.deps.Store.FinishDerivatives(ctx, result)
	}
	switch {
	case err == nil:
		service.writers.end(writer)
		return nil
	case errors.Is(err, ErrWriterEnded):
		service.writers.drop(bucket{a.scope.AccountID, a.scope.Bucket}, writer)
	default:
		left.uncertain = !errors.Is(err, ErrNotPending) && !fault.Is(err, fault.QuotaExceeded)
	}
	a.abandon(ctx, left)
	return err
}

// abandon removes what the attempt has stored, now or when the database responds again. An object whose write has failed may still appear:
// the removal stays queued, and the purge repeats it.
func (a *derivation) abandon(ctx context.Context, left abandoned) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	service := a.deps.Uploads
	removal, err := service.abandonStored(ctx, left)
	switch {
	case err != nil:
		a.deps.Log.WarnContext(ctx, "cleanup deferred to the next heartbeat", "stage", "abandon derivatives", "item", left.itemID, "error", err)
	case removal != nil:
		service.deps.Items.TryRemoval(ctx, *removal)
	}
}
