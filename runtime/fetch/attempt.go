package fetch

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// attempt is one attempt at a job.
type attempt struct {
	*Service
	claim     Claim
	received  atomic.Int64
	total     atomic.Int64
	checked   atomic.Pointer[time.Time] // when the process was seen to run; nil while it downloads nothing
	wasPaused atomic.Bool
}

// run downloads the file into a draft, unless an earlier attempt has. The cause of an error may be
// errShutdown or ErrLost.
func (a *attempt) run(ctx context.Context) (err error) {
	defer recovered(&err)
	caller, err := a.principal(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	if !a.claim.Committed {
		if a.claim.Attempt > a.cfg.MaxAttempts {
			return Fail(Interrupted, "the service was interrupted %d times while it fetched the file", a.cfg.MaxAttempts)
		}
		if err := a.fetch(ctx, caller); err != nil {
			return ended(ctx, err)
		}
	}
	if !a.claim.Request.Seal {
		return nil
	}
	_, err = a.deps.Media.Seal(ctx, caller, a.claim.ItemID)
	if fault.Is(err, fault.NotFound) {
		return Fail(NotPermitted, "the draft was deleted before it was sealed")
	}
	return ended(ctx, err)
}

// ended returns errShutdown instead of the error of an attempt whose process shuts down, and a Failure for one whose time was over.
func ended(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Fail(Timeout, "the upload has taken more than %d hours", attemptTimeout/time.Hour)
	}
	return errShutdown
}

// fetch downloads the file into a draft.
func (a *attempt) fetch(ctx context.Context, caller account.Principal) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer a.monitor(ctx, cancel)()
	defer a.running.add(a, cancel, a.cfg)()
	err := a.transfer(ctx, cancel, caller)
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

func (a *attempt) transfer(ctx context.Context, cancel context.CancelCauseFunc, caller account.Principal) error {
	file, err := a.deps.Source.Open(ctx, a.claim.Request.URL)
	if err != nil {
		return err
	}
	defer func() { _ = file.Body.Close() }()
	a.total.Store(file.Size)
	upload, err := a.deps.Uploads.BeginItem(ctx, caller, a.claim.ItemID, file.Size)
	if err != nil {
		return err
	}
	defer upload.Close(ctx)
	upload.OnSlow(cancel)
	if err := upload.Receive(ctx, counted{file.Body, a}, file.MimeType); err != nil {
		return err
	}
	// The draft is made only if the credential is valid now, and the claim was not lost.
	if err := a.check(ctx); err != nil {
		return err
	}
	return commitError(upload.Commit(ctx, a.claim.Request.Fields))
}

func commitError[T any](_ T, err error) error { return err }

// monitor records the progress, and ends the attempt when its claim was lost or its credential has
// ended, until stop is called.
func (a *attempt) monitor(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	a.sawItRun()
	go func() {
		defer close(stopped)
		tick := time.NewTicker(a.cfg.CheckInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			a.sawItRun()
			// While the database does not respond, the attempt continues: its commit will tell.
			if err := a.check(ctx); err != nil && !fault.Is(err, fault.Unavailable) {
				cancel(err)
			}
		}
	}()
	return func() { close(done); <-stopped }
}

// maxDelay is how late a check may come of a process that has the processor time that it needs.
const maxDelay = 5 * time.Second

// paused reports whether the process did not run for a while during the attempt: it was stopped, its machine was, or its database did not
// respond. The error of the attempt then says nothing about the other server, whose timeouts and those of this process have gone on. The
// process may have run again for a moment before the error.
func (a *attempt) paused() bool {
	checked := a.checked.Load()
	return a.wasPaused.Load() || checked != nil && time.Since(*checked) > a.cfg.CheckInterval+maxDelay
}

// sawItRun records that the process runs, and whether it was paused.
func (a *attempt) sawItRun() {
	now := time.Now()
	a.wasPaused.Store(a.paused())
	a.checked.Store(&now)
}

// check records the progress, and returns an error if the claim was lost or the credential has ended.
func (a *attempt) check(ctx context.Context) error {
	if err := a.deps.Store.ReportFetch(ctx, a.claim, a.received.Load(), a.total.Load()); err != nil {
		return err
	}
	_, err := a.principal(ctx)
	return err
}

// principal returns the principal of the job, if its credential is valid and permits the job.
func (a *attempt) principal(ctx context.Context) (p account.Principal, err error) {
	if a.claim.GrantID == uuid.Nil {
		p, err = a.deps.Store.FindPrincipalByKeyID(ctx, a.claim.KeyID)
	} else {
		p, err = a.deps.Store.FindPrincipalOfGrant(ctx, a.claim.GrantID)
	}
	switch {
	case err != nil:
		return p, err
	case p.App.ID != a.claim.AppID:
		return p, fault.New(fault.Forbidden, "the credential belongs to another app")
	case p.Account.Suspended:
		return p, Fail(NotPermitted, "the account is suspended")
	}
	if a.claim.GrantID != uuid.Nil {
		p = p.AsConnection(account.ConnectionOfGrant(a.claim.GrantID))
	} else if a.claim.Assistant {
		p = p.AsConnection(account.ConnectionOfKey(a.claim.KeyID))
	}
	return p, permits(Caller{Principal: p, GrantID: a.claim.GrantID, Assistant: a.claim.Assistant}, a.claim.Request)
}

// counted counts what is read.
type counted struct {
	io.Reader
	attempt *attempt
}

// Read reads the next bytes.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.attempt.received.Add(int64(n))
	c.attempt.metrics.received.Add(float64(n))
	return n, err
}
