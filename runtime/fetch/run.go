package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// JobWork is the kind of the tasks that run jobs. The key of a task is the id of its job.
const JobWork work.Kind = "fetch"

// claimGrace is how long the purge leaves the objects of an earlier attempt.
const claimGrace = time.Minute

// endTimeout bounds the statements that end an attempt after its context has ended.
const endTimeout = 10 * time.Second

// attemptTimeout bounds one attempt. Its file has SERVICE_FETCH_TIMEOUT, which is 24h at most.
const attemptTimeout = 25 * time.Hour

// errShutdown is the cause of the end of an attempt whose process shuts down.
var errShutdown = errors.New("the process shuts down")

// Policy returns how the tasks of JobWork run. Of several slots the last free one is for an account of which no job runs, so slow servers
// of few accounts cannot hold all slots.
func (s *Service) Policy() work.Policy {
	return work.Policy{
		Slots: s.cfg.Concurrency, PerAccount: s.cfg.PerAccount, Spare: 1, Timeout: attemptTimeout, Leased: true, Interrupt: true, CheckInterval: s.cfg.CheckInterval,
		MinBackoff: s.backoff(), MaxBackoff: 60 * s.cfg.CheckInterval, Ready: s.deps.Ready, Enqueue: s.deps.Store.EnqueueFetches, Full: s.makeRoom,
	}
}

// backoff returns the pause after the first attempt that failed: 20 s with the default interval.
func (s *Service) backoff() time.Duration { return 4 * s.cfg.CheckInterval }

// Work makes one attempt at the job of a task, and records how it ended. It is the worker of JobWork.
func (s *Service) Work(ctx context.Context, task work.Task) error {
	began := s.deps.Now()
	claim, err := s.deps.Store.BeginFetch(ctx, task.Key, media.UploadKeys, began.Add(claimGrace))
	switch {
	case errors.Is(err, ErrNotFound): // the job has ended, or was purged
		return nil
	case errors.Is(err, ErrLost), fault.Is(err, fault.Unavailable):
		return work.Snooze(s.cfg.CheckInterval)
	case err != nil:
		return err
	}
	attempt := &attempt{Service: s, claim: claim}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	err = attempt.run(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	outcome, err := attempt.end(ending, err)
	s.metrics.countAttempt(outcome, s.deps.Now().Sub(began))
	return err
}

// ending is how an attempt at a job ended, and what becomes of the job and its task.
type ending struct {
	outcome string // the value of the label
	failure *Failure
	// again: the job waits for another attempt, after delay. The attempt that ended counts if counted is set.
	again   bool
	delay   time.Duration
	counted bool
	task    error
}

// endingOf returns the ending of an attempt with an error, or without.
func (a *attempt) endingOf(err error) ending {
	switch {
	case err == nil:
		return ending{outcome: outcomeDone}
	case errors.Is(err, errShutdown):
		return ending{outcome: outcomeReturned, again: true, task: err}
	case errors.Is(err, errYielded):
		return ending{outcome: outcomeReturned, again: true, task: work.Snooze(0)}
	}
	failure, retry := failureOf(err)
	if (retry || a.paused()) && a.claim.Attempt < a.cfg.MaxAttempts {
		return ending{outcome: outcomeRetry, again: true, delay: a.backoff(), counted: true, task: err}
	}
	return ending{outcome: outcomeOf(failure.Code), failure: &failure}
}

// end records how an attempt at a job ended, and logs it then. It returns the value of the label outcome, and what becomes of the task: an
// error that cannot be recorded makes another attempt, which finds out.
func (a *attempt) end(ctx context.Context, err error) (outcome string, taskErr error) {
	log := a.deps.Log.With("job", a.claim.ID, "account", a.claim.AccountID, "host", host(a.claim.Request.URL), "attempt", a.claim.Attempt)
	ending, recordErr := a.endingOf(err), err
	switch {
	case errors.Is(err, ErrLost):
	case ending.again:
		recordErr = a.deps.Store.ReturnFetch(ctx, a.claim, ending.delay, ending.counted)
	default:
		recordErr = a.deps.Store.FinishFetch(ctx, a.claim, a.received.Load(), ending.failure)
	}
	switch {
	case errors.Is(recordErr, ErrLost):
		log.WarnContext(ctx, "an upload from a URL was taken over by another process, or its account was deleted")
		return outcomeLost, nil
	case recordErr != nil:
		return outcomeRetry, recordErr
	case ending.failure != nil:
		logFailure(ctx, log, *ending.failure, err)
	case ending.outcome == outcomeDone:
		log.InfoContext(ctx, "a file was uploaded from a URL", "item", a.claim.ItemID, "bytes", a.received.Load())
	case ending.outcome == outcomeReturned:
		log.InfoContext(ctx, "an upload from a URL was given back", "reason", err)
	}
	return ending.outcome, ending.task
}

// logFailure logs why a job failed: as an error if the service is the reason. The text of a failure is the tenant's, its cause is not.
func logFailure(ctx context.Context, log *slog.Logger, failure Failure, err error) {
	if failure.Code == InternalError || failure.Code == Unavailable || failure.Code == Interrupted {
		log.ErrorContext(ctx, "an upload from a URL failed", "code", failure.Code, "error", err)
		return
	}
	if failure.Cause != nil {
		log = log.With("cause", failure.Cause.Error())
	}
	log.InfoContext(ctx, "an upload from a URL failed", "code", failure.Code)
}

// recovered turns a panic into an error: it would end the process, and the requests that it serves.
func recovered(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	}
}
