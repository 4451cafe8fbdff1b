package mediaaccount

import (
	"context"
	"slices"
	"sync"
	"time"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// Runtimes returns the replicas of the runtime that serve; Package postgres implements it.
type Runtimes interface {
	ServingRuntimes(ctx context.Context) (installation.Runtimes, error)
}

const (
	// runtimesInterval is how long one answer is used for all accounts.
	runtimesInterval = 10 * time.Second
	// maxVersions is the limit of status.runtime.versions.
	maxVersions = 16
)

// runtimes keeps the last answer of Runtimes for all accounts.
type runtimes struct {
	store Runtimes
	now   func() time.Time

	mu        sync.Mutex
	askedAt   time.Time
	first     chan struct{} // closed when the first question has ended; nil before it
	serving   installation.Runtimes
	known     bool      // serving was read
	goneSince time.Time // when none was found first; zero while one serves
}

// Look returns the replicas that serve, and for how long there have been none. known is false
// before the first answer. While PostgreSQL does not answer, the last answer stays. Calls during the
// first question wait for its end: without an answer, each would write a status that lacks the replicas,
// and that nothing completes before the account changes.
func (r *runtimes) Look(ctx context.Context) (serving installation.Runtimes, gone time.Duration, known bool) {
	due, first := r.due()
	if due {
		r.ask(ctx)
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.goneSince.IsZero() {
		gone = r.now().Sub(r.goneSince)
	}
	return r.serving, gone, r.known
}

// ask asks for the replicas that serve.
func (r *runtimes) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.store.ServingRuntimes(ctx)
	if err == nil {
		r.learn(found)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.first:
	default:
		close(r.first)
	}
}

// due reports whether the caller should ask; the others use the last answer meanwhile. It returns the
// end of the first question.
func (r *runtimes) due() (due bool, first <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = make(chan struct{})
	}
	if now := r.now(); r.askedAt.IsZero() || now.Sub(r.askedAt) >= runtimesInterval {
		r.askedAt = now
		due = true
	}
	return due, r.first
}

func (r *runtimes) learn(found installation.Runtimes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serving, r.known = found, true
	switch {
	case found.Replicas > 0:
		r.goneSince = time.Time{}
	case r.goneSince.IsZero():
		r.goneSince = r.now()
	}
}

// checkRuntime records whether a replica of the runtime serves the account. It allows the grace
// of outages also after PostgreSQL was out, when the replicas could not report themselves.
func (r *Reconciler) checkRuntime(ctx context.Context, s *scope) bool {
	serving, gone, known := r.runtimes.Look(ctx)
	if !known {
		return true
	}
	if isGone(serving, gone, r.config.OutageGrace) {
		out := reconcile.NewError(reconcile.Runtime, fault.New(fault.Unavailable, "no replica of the runtime serves"))
		r.deps.Outages.Called(ctx, reconcile.Runtime, out)
		s.observed.runtime = out.Shared() // pace sees the end of the outage for all accounts
	} else if serving.Replicas > 0 {
		r.deps.Outages.Called(ctx, reconcile.Runtime)
	}
	before := s.Original.Status.Runtime
	if before == nil || r.usageIsDue(s) || s.observed.runtime != nil || before.Replicas == 0 {
		s.Object.Status.Runtime = &v1alpha1.RuntimeStatus{
			Replicas: int32(min(serving.Replicas, 1<<16)), //nolint:gosec // bounded
			Versions: serving.Versions[:min(len(serving.Versions), maxVersions)],
		}
	}
	return true
}

// isGone reports whether no replica of the runtime has served for the grace of outages.
func isGone(serving installation.Runtimes, gone, grace time.Duration) bool {
	return serving.Replicas == 0 && gone >= grace
}

// equalVersions reports whether a status shows the versions, of which it shows some.
func equalVersions(shown, versions []string) bool {
	return slices.Equal(shown, versions[:min(len(versions), maxVersions)])
}
