package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"mediastack.dev/runtime/media"
)

// claimGrace is how long the purge leaves the objects of an earlier attempt.
const claimGrace = time.Minute

// endTimeout bounds the statements that end an attempt after its context has ended.
const endTimeout = 10 * time.Second

// errShutdown is the cause of the end of an attempt whose process shuts down.
var errShutdown = errors.New("the process shuts down")

// Run runs jobs of all accounts until ctx ends. It then gives back those that are running.
func (s *Service) Run(ctx context.Context) error {
	if !s.Enabled() {
		return nil
	}
	slots := make(chan struct{}, s.cfg.Concurrency)
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(s.cfg.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case slots <- struct{}{}:
		case <-tick.C:
			if len(slots) == cap(slots) {
				s.makeRoom(ctx)
			}
			continue
		case <-ctx.Done():
			return nil
		}
		claim, ok := s.claim(ctx, s.perAccount(len(slots)-1))
		if ok {
			running.Go(func() {
				defer s.signal() // the account may have one more
				defer func() { <-slots }()
				s.run(ctx, claim)
			})
			continue
		}
		<-slots
		select {
		case <-s.wake:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// perAccount returns how many jobs of an account may run if one of them is claimed, while this process
// runs jobs. The last slot is for an account of which none runs, so that slow servers of few accounts
// cannot hold all slots.
func (s *Service) perAccount(running int) int {
	if running > 0 && running == s.cfg.Concurrency-1 {
		return 1
	}
	return s.cfg.PerAccount
}

// claim claims a job of an account of which fewer than perAccount run, if there is one.
func (s *Service) claim(ctx context.Context, perAccount int) (Claim, bool) {
	if ctx.Err() != nil || !s.writable() {
		return Claim{}, false
	}
	claim, ok, err := s.deps.Store.ClaimFetch(ctx, perAccount, media.UploadKeys, s.deps.Now().Add(claimGrace))
	if err != nil {
		if ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "uploads from a URL cannot be claimed; the next check tries again", "error", err)
		}
		return Claim{}, false
	}
	return claim, ok
}

// writable reports whether jobs may be claimed.
func (s *Service) writable() bool { return s.deps.Writable == nil || s.deps.Writable() == nil }

// run makes one attempt at a job, and records how it ended.
func (s *Service) run(ctx context.Context, claim Claim) {
	began := s.deps.Now()
	attempt := &attempt{Service: s, claim: claim}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	err := attempt.run(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	s.metrics.countAttempt(attempt.end(ending, err), s.deps.Now().Sub(began))
}

// end records how an attempt ended, and returns the value of the label outcome.
func (a *attempt) end(ctx context.Context, err error) (outcome string) {
	log := a.deps.Log.With("job", a.claim.ID, "account", a.claim.AccountID, "host", host(a.claim.Request.URL), "attempt", a.claim.Attempt)
	failure, retry := Failure{}, false
	if err != nil {
		failure, retry = failureOf(err)
	}
	var recorded error
	switch {
	case errors.Is(err, ErrLost):
		outcome = outcomeLost
		log.WarnContext(ctx, "an upload from a URL was taken over by another process")
	case err == nil:
		outcome = outcomeDone
		recorded = a.deps.Store.FinishFetch(ctx, a.claim, a.received.Load(), nil)
		log.InfoContext(ctx, "a file was uploaded from a URL", "item", a.claim.ItemID, "bytes", a.received.Load())
	case errors.Is(err, errShutdown), errors.Is(err, errYielded):
		outcome = outcomeReturned
		recorded = a.deps.Store.ReturnFetch(ctx, a.claim, 0, false)
		log.InfoContext(ctx, "an upload from a URL was given back", "reason", err)
	case retry && a.claim.Attempt < a.cfg.MaxAttempts:
		outcome = outcomeRetry
		recorded = a.deps.Store.ReturnFetch(ctx, a.claim, a.backoff(a.claim.Attempt), true)
		log.WarnContext(ctx, "an upload from a URL is tried again", "error", err)
	default:
		outcome = outcomeOf(failure.Code)
		recorded = a.deps.Store.FinishFetch(ctx, a.claim, a.received.Load(), &failure)
		a.logFailure(ctx, log, failure, err)
	}
	if recorded != nil {
		log.WarnContext(ctx, "the end of an upload from a URL is not recorded; another attempt will find out", "error", recorded)
	}
	return outcome
}

// logFailure logs why a job failed. The text of an error of the other server is the tenant's.
func (a *attempt) logFailure(ctx context.Context, log *slog.Logger, failure Failure, err error) {
	if failure.Code == InternalError || failure.Code == Unavailable {
		log.ErrorContext(ctx, "an upload from a URL failed", "code", failure.Code, "error", err)
		return
	}
	if failure.Cause != nil {
		log = log.With("cause", failure.Cause.Error())
	}
	log.InfoContext(ctx, "an upload from a URL failed", "code", failure.Code)
}

// backoff returns the pause after an attempt that failed: 20 s, 80 s and so on with the default interval.
func (s *Service) backoff(attempt int) time.Duration { return s.cfg.CheckInterval << (2 * attempt) }

// recovered turns a panic into an error: it would end the process, and the requests that it serves.
func recovered(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	}
}
