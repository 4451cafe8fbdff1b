package reconcile

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// probeInterval is the shortest time between two calls of a source that is out.
	probeInterval = 500 * time.Millisecond
	// probeTimeout is when another call is permitted although one has not ended. It is longer
	// than the timeout of a step.
	probeTimeout = 15 * time.Second
	// outageRetry is how long an object waits for its next attempt on average, if there are
	// many: with 10,000 objects that is the load of a cluster that is well.
	outageRetry = 30 * time.Second
)

// Outages are the outages of the sources, as all objects see them. While a source is out, few
// calls reach it, whatever the number of objects is, and the status of an object that was
// Ready stays until the outage has lasted for the grace period. It is in memory only: after a
// restart or a change of leader the grace period begins again. It is safe for concurrent use. A
// nil *Outages knows no outage: every error shows at once.
type Outages struct {
	grace time.Duration
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	sources map[Source]*outage
	failing map[failing]failingSince
}

// outage is one source that is out.
type outage struct {
	since time.Time
	err   error     // of the latest call
	busy  time.Time // until when a call is under way; zero = none is
	next  time.Time // when the next call may begin
	slot  time.Time // the last attempt that was promised to an object
	shown bool      // Due returned it
}

// failing is one object that a source fails for, even if others succeed.
type failing struct {
	uid    types.UID
	source Source
}

type failingSince struct {
	since time.Time
	subject
}

// subject is an object, and how to request its reconcile.
type subject struct {
	uid     types.UID
	queue   *Queue
	request ctrl.Request
}

// NewOutages returns Outages without any. A status stays for grace; 0 changes it at once.
func NewOutages(grace time.Duration, now func() time.Time, log *slog.Logger) *Outages {
	for _, source := range []Source{Database, ObjectStore, Runtime} {
		outageGauge.WithLabelValues(source.String()).Set(0) // an alert needs the series before the first outage
	}
	return &Outages{grace: grace, now: now, log: log, sources: map[Source]*outage{}, failing: map[failing]failingSince{}}
}

// Admit returns nil if the source may be called. During an outage one call at a time may; for
// the others Admit returns the error of the latest one.
func (o *Outages) Admit(source Source) *StepError {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out, now := o.sources[source], o.now()
	switch {
	case out == nil:
		return nil
	case now.Before(out.busy) || now.Before(out.next):
		return &StepError{Source: source, Err: out.err, shared: true}
	}
	out.busy = now.Add(probeTimeout)
	return nil
}

// Called records that a source was called. It ends the outage, unless one of failures is an
// outage of the source: then it begins, or continues. A call whose context has ended shows nothing.
func (o *Outages) Called(ctx context.Context, source Source, failures ...*StepError) {
	o.CalledSince(ctx, source, time.Time{}, failures...)
}

// CalledSince is Called for a call that began at a known time. One that began before the outage does not
// end the call that is permitted meanwhile: else each call that waits as the outage begins is followed by another.
func (o *Outages) CalledSince(ctx context.Context, source Source, began time.Time, failures ...*StepError) {
	if o == nil || ctx.Err() != nil {
		return
	}
	for _, failure := range failures {
		if failure.Outage() && failure.Source == source {
			o.failedSince(failure, began)
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.sources[source]
	if out == nil {
		return
	}
	delete(o.sources, source)
	for key, object := range o.failing {
		if key.source == source {
			object.queue.Add(PriorityRepeat, object.request)
		}
	}
	outageGauge.WithLabelValues(source.String()).Set(0)
	o.log.Info("an outage ended", "source", source.String(), "duration", o.now().Sub(out.since).Round(time.Second).String())
}

// Standing returns the error of the latest call of a source that is out, and nil if it is not out.
func (o *Outages) Standing(source Source) *StepError {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if out := o.sources[source]; out != nil {
		return &StepError{Source: source, Err: out.err, shared: true}
	}
	return nil
}

// Due returns the sources whose outage has lasted for the grace period, each once: every object has
// to show it now, whether or not it was reconciled meanwhile.
func (o *Outages) Due() (due []Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for source, out := range o.sources {
		if !out.shown && !o.now().Before(out.since.Add(o.grace)) {
			out.shown = true
			due = append(due, source)
		}
	}
	return due
}

// failed records an outage that a call of its source saw.
func (o *Outages) failed(failure *StepError) { o.failedSince(failure, time.Time{}) }

// failedSince is failed for a call that began at a known time, unless began is zero.
func (o *Outages) failedSince(failure *StepError, began time.Time) {
	if o == nil || !failure.Outage() || failure.shared {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	out := o.sources[failure.Source]
	if out == nil {
		out = &outage{since: now}
		o.sources[failure.Source] = out
		outageGauge.WithLabelValues(failure.Source.String()).Set(1)
		o.log.Warn("an outage began", "source", failure.Source.String(), "error", failure.Err)
	}
	out.err = failure.Err
	if out.since.Equal(now) || began.IsZero() || !began.Before(out.since) {
		out.busy, out.next = time.Time{}, now.Add(probeInterval)
	}
}

// RetryIn returns when an object should try a source that is out again. The first objects that
// ask share the calls that are permitted in the next seconds, so that the end of the outage is
// seen soon; the others come later, each at a random time.
func (o *Outages) RetryIn(source Source) time.Duration {
	if o == nil {
		return outageRetry
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if out := o.sources[source]; out != nil {
		slot := out.slot
		if slot.Before(now) {
			slot = now
		}
		if slot = slot.Add(probeInterval); slot.Sub(now) <= outageRetry {
			out.slot = slot
			return slot.Sub(now)
		}
	}
	return outageRetry/2 + rand.N(outageRetry)
}

// keepsStatus records which sources fail for an object, and reports whether its status stays, and
// until when: all its errors are outages that are younger than the grace period.
func (o *Outages) keepsStatus(object subject, failures []*StepError) (keeps bool, until time.Time) {
	if o == nil {
		return false, until
	}
	out, keeps := outagesIn(failures)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for _, source := range []Source{Database, ObjectStore} {
		key := failing{object.uid, source}
		if !out[source] {
			delete(o.failing, key)
			continue
		}
		known, failed := o.failing[key]
		if !failed {
			known = failingSince{since: now, subject: object}
			o.failing[key] = known
		}
		since := known.since
		if shared := o.sources[source]; shared != nil && shared.since.Before(since) {
			since = shared.since
		}
		ends := since.Add(o.grace)
		keeps = keeps && now.Before(ends)
		if until.IsZero() || ends.Before(until) {
			until = ends
		}
	}
	return keeps, until
}

// outagesIn returns the sources that are out according to failures. only is set if there is no
// other error, such as an outage of the runtime, which is reported after its grace only.
func outagesIn(failures []*StepError) (out map[Source]bool, only bool) {
	out, only = map[Source]bool{}, true
	for _, failure := range failures {
		switch {
		case failure == nil:
		case failure.Outage() && failure.Source != Runtime:
			out[failure.Source] = true
		default:
			only = false
		}
	}
	return out, only && len(out) > 0
}

// forget removes what is known of an object that is gone.
func (o *Outages) forget(uid types.UID) { o.keepsStatus(subject{uid: uid}, nil) }
