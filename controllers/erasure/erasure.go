// Package erasure permanently deletes the media of closed accounts: the bucket first, then the
// rows. The controllers of MediaAccounts that are being deleted and of RetainedMediaAccounts call
// it. See docs/decisions/0018.
package erasure

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

const (
	// timeSlice is how long one call of Erase works, so that deletions take turns.
	timeSlice = 5 * time.Second
	// callTimeout bounds what a call of Erase does after its time slice has ended.
	callTimeout = 30 * time.Second
	// recordTimeout bounds a statement after the work on the bucket, for which an object store that
	// does not respond must leave time: the failure is not one of the database.
	recordTimeout = 10 * time.Second
	// minPause and maxPause bound the pause after a slice without progress. Such a slice sends at
	// most eight requests to the object store: less than two a second. maxOutagePause is the
	// longest one while the store cannot be reached, so that deletions go on soon after an outage.
	minPause       = 5 * time.Second
	maxPause       = 2 * time.Minute
	maxOutagePause = 20 * time.Second
)

// Buckets are the operations on buckets that an erasure needs.
type Buckets interface {
	// Drain removes what a bucket holds, except for its marker.
	Drain(ctx context.Context, bucket, after string, more func() bool) (objectstore.Drained, error)
	// RemoveDrained removes the marker and the bucket.
	RemoveDrained(ctx context.Context, bucket string) error
}

// Installation proves that the database was not restored. installation.Guard implements it.
type Installation interface {
	// Beat compares the database with the markers of buckets now. It returns nil only if it is
	// the one that owns them.
	Beat(ctx context.Context) error
	// CheckBucket reads the marker of a bucket and compares it with the database.
	CheckBucket(ctx context.Context, bucket installation.Bucket) (installation.Marker, error)
}

var (
	_ Buckets      = (*objectstore.Store)(nil)
	_ Installation = (*installation.Guard)(nil)
)

// Deps are the parts that an Eraser uses.
type Deps struct {
	Accounts *account.Registry
	Buckets  Buckets
	// Installation is asked after the database decided that the account is erased, and before
	// anything is removed: a database that was restored meanwhile may have an account as closed
	// that is open.
	Installation Installation
	Now          func() time.Time
}

// Target is an account to erase.
type Target struct {
	AccountID uuid.UUID
	// Bucket is the bucket that the caller expects. The database decides which it is; nothing is
	// erased if the two differ. Empty expects none.
	Bucket string
}

// Progress is the state of an erasure after a call of Erase.
type Progress struct {
	// Done is set when the bucket and all rows are gone.
	Done bool
	// ItemsLeft is the number of items that still have a row, and ObjectsLeft that of the versions
	// in the bucket; -1 = not known.
	ItemsLeft   int64
	ObjectsLeft int64
	// Message describes the progress.
	Message string
	// Blocked is the error of the object store that the erasure cannot get past; nil if it
	// proceeds.
	Blocked *reconcile.StepError
	// BucketRetained says why the bucket was left alone, in the slice that found it out; empty
	// otherwise.
	BucketRetained string
	// RetryAfter is when to call again. A call before that returns the same Progress.
	RetryAfter time.Duration
}

// Eraser erases accounts. It is safe for concurrent use; of two calls for one account, the second
// does nothing.
type Eraser struct {
	deps Deps

	mu       sync.Mutex
	erasures map[uuid.UUID]*erasure
}

// New returns an Eraser that uses deps.
func New(deps Deps) *Eraser { return &Eraser{deps: deps, erasures: map[uuid.UUID]*erasure{}} }

// Erase erases an account for a bounded time; call it again until Done. It erases an account only
// if it is closed and the time of its deletion has come, which the database decides. The error is
// one of the database: Conflict if the account must not be erased.
func (e *Eraser) Erase(ctx context.Context, target Target) (Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, timeSlice+callTimeout)
	defer cancel()
	run, resting := e.enter(target.AccountID, cancel)
	if run == nil {
		return resting, nil
	}
	end := e.deps.Now().Add(timeSlice)
	progress, err := run.slice(ctx, e.deps, target, func() bool { return ctx.Err() == nil && e.deps.Now().Before(end) })
	e.leave(target.AccountID, run, progress, err)
	return progress, err
}

// Abandon retains an account whose store is gone for good, although its erasure may have begun:
// it ends a running Erase first. It is Conflict once the bucket was removed.
func (e *Eraser) Abandon(ctx context.Context, accountID uuid.UUID) (account.Account, error) {
	run, err := e.interrupt(ctx, accountID)
	if err != nil {
		return account.Account{}, err
	}
	defer e.leave(accountID, run, Progress{Done: true}, nil)
	return e.deps.Accounts.Abandon(ctx, accountID)
}

// enter returns the erasure of the account, or its Progress if it runs or pauses.
func (e *Eraser) enter(accountID uuid.UUID, cancel context.CancelFunc) (*erasure, Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	run := e.get(accountID)
	if pause := run.pausedUntil.Sub(e.deps.Now()); pause > 0 || run.ended != nil {
		resting := run.last
		resting.RetryAfter = max(pause, minPause)
		return nil, resting
	}
	run.ended, run.cancel = make(chan struct{}), cancel
	return run, Progress{}
}

// interrupt cancels a running Erase of the account and enters in its place once it has ended.
func (e *Eraser) interrupt(ctx context.Context, accountID uuid.UUID) (*erasure, error) {
	for {
		e.mu.Lock()
		run := e.get(accountID)
		if run.ended == nil {
			run.ended, run.cancel = make(chan struct{}), func() {}
			e.mu.Unlock()
			return run, nil
		}
		run.cancel()
		ended := run.ended
		e.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, fault.Wrap(ctx.Err(), fault.Unavailable, "a running deletion did not end in time")
		}
	}
}

func (e *Eraser) get(accountID uuid.UUID) *erasure {
	run := e.erasures[accountID]
	if run == nil {
		run = &erasure{last: Progress{ItemsLeft: -1, ObjectsLeft: -1, Message: "Deleting the media"}}
		e.erasures[accountID] = run
	}
	return run
}

// leave records the result of a slice. Nothing is kept of an erasure that is over.
func (e *Eraser) leave(accountID uuid.UUID, run *erasure, progress Progress, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if progress.Done || fault.Is(err, fault.Conflict) {
		delete(e.erasures, accountID)
	}
	if err == nil {
		run.last, run.pausedUntil = progress, e.deps.Now().Add(progress.RetryAfter)
		run.last.BucketRetained = ""
	}
	close(run.ended)
	run.ended = nil
}

// erasure is what a process remembers of an erasure. After a restart it begins anew with what is
// left: the database and the bucket say what that is.
type erasure struct {
	ended       chan struct{} // closed when the running call ends; nil while none runs
	cancel      context.CancelFunc
	last        Progress
	pausedUntil time.Time

	verified bool   // the marker named the account: it is removed last
	cursor   string // the key after which the pass through the bucket continues
	pass     objectstore.Drained
	removed  int64 // versions that were removed so far
	failures int   // passes without progress in a row
}

// slice works until more returns false.
func (r *erasure) slice(ctx context.Context, deps Deps, target Target, more func() bool) (Progress, error) {
	erasing, err := deps.Accounts.BeginErasure(ctx, target.AccountID)
	if fault.Is(err, fault.NotFound) {
		return Progress{Done: true}, nil
	}
	if err != nil {
		return Progress{}, err
	}
	if target.Bucket != "" && target.Bucket != erasing.Bucket {
		return Progress{}, fault.New(fault.Conflict, "account %s has bucket %s, not %s", erasing.ID, erasing.Bucket, target.Bucket)
	}
	retained := ""
	if erasing.BucketRemovedAt == nil {
		progress, done := r.emptyBucket(ctx, deps, erasing, more)
		if !done {
			record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
			defer cancel()
			progress.ItemsLeft, err = deps.Accounts.ItemsToErase(record, erasing.ID)
			return progress, err
		}
		record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		if err := deps.Accounts.SetBucketRemoved(record, erasing.ID); err != nil {
			return Progress{}, err
		}
		retained = progress.BucketRetained
	}
	done, err := deps.Accounts.EraseRows(ctx, erasing.ID, more)
	if done || err != nil {
		return Progress{Done: done, BucketRetained: retained}, err
	}
	left, err := deps.Accounts.ItemsToErase(ctx, erasing.ID)
	return Progress{
		ItemsLeft: left, BucketRetained: retained, RetryAfter: time.Millisecond,
		Message: fmt.Sprintf("Deleting the media: the bucket is gone, %s items left", formatThousands(left)),
	}, err
}

// formatThousands formats a number with commas between groups of three digits.
func formatThousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
