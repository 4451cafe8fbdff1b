package objectstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

const (
	// probeInterval is the interval between probes of a store that responds, awayInterval that of one
	// that does not. A request that fails causes a probe at once.
	probeInterval = 5 * time.Second
	awayInterval  = time.Second
	// troublePause bounds the rate of probes of a store that fails some requests.
	troublePause = 100 * time.Millisecond
	// probeTimeout bounds one ping. A store that is slow is away after two in a row.
	probeTimeout = 3 * time.Second
	// conditionalTimeout bounds the probe for conditional puts.
	conditionalTimeout = 15 * time.Second
	// awayRetryAfter is when a client may repeat a request that the store was away for.
	awayRetryAfter = 5 * time.Second
)

// ReadinessConfig configures a Readiness. The tags are flag and environment names.
type ReadinessConfig struct {
	StallTimeout time.Duration `name:"s3-stall-timeout" env:"SERVICE_S3_STALL_TIMEOUT" default:"5s" help:"How long a request to S3 may make no progress while S3 does not respond to probes, from 1s to 1m."`
}

const (
	minStallTimeout = time.Second
	maxStallTimeout = time.Minute
)

// Validate checks the bounds.
func (c ReadinessConfig) Validate() error {
	if c.StallTimeout < minStallTimeout || c.StallTimeout > maxStallTimeout {
		return fmt.Errorf("SERVICE_S3_STALL_TIMEOUT must be from %s to %s, not %s", minStallTimeout, maxStallTimeout, c.StallTimeout)
	}
	return nil
}

// errNotChecked is the state before the first probe.
var errNotChecked = fault.WithReason(fault.New(fault.Unavailable, "the object store has not been checked yet"), fault.Starting)

// Readiness knows whether the store responds, so that a request that needs an absent store fails at
// once, and whether it has conditional puts. A definite result of the latter is kept. Readiness is
// safe for concurrent use.
type Readiness struct {
	cfg         ReadinessConfig
	store       *Store
	ownedBucket func(ctx context.Context) (bucket string, err error)
	log         *slog.Logger

	mu        sync.Mutex
	responded bool  // the store has accepted a request since the start
	away      error // the failure of the last probe; nil = the store responds
	slow      bool  // the last probe timed out, and none before it
	probing   bool
	probed    bool  // without a bucket; used only by the call that is probing
	known     bool  // result is final
	result    error // nil = the store has conditional puts, as far as it is known
}

// NewReadiness returns a Readiness. ownedBucket returns a bucket that has an owner marker, or
// an empty name while there is none: then only a store that reports it is known to have no
// conditional puts.
func NewReadiness(cfg ReadinessConfig, store *Store, ownedBucket func(ctx context.Context) (string, error), log *slog.Logger) *Readiness {
	return &Readiness{cfg: cfg, store: store, ownedBucket: ownedBucket, log: log, away: errNotChecked}
}

// Register registers the metric of the store.
func (r *Readiness) Register(registry prometheus.Registerer) error {
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediastack_object_store_up", Help: "1 while the object store responds, 0 while uploads and files are answered 503.",
	}, func() float64 {
		if r.Available() != nil {
			return 0
		}
		return 1
	}))
}

// Run probes the store until ctx ends: periodically, and when a request failed. While the store is
// away, it ends the requests that make no progress.
func (r *Readiness) Run(ctx context.Context) error {
	var stalled sync.WaitGroup
	defer stalled.Wait()
	stalled.Go(func() { r.endStalled(ctx) })
	for {
		_ = r.Check(ctx) // it logs a change
		interval, troubles := probeInterval, r.store.troubles
		if r.Available() != nil {
			interval, troubles = awayInterval, nil // it is known
		}
		select {
		case <-r.store.troubles: // of the probe itself
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-troubles:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(troublePause):
			}
		case <-time.After(interval):
		}
	}
}

// endStalled ends, until ctx ends, the requests that make no progress while the store is away.
func (r *Readiness) endStalled(ctx context.Context) {
	tick := time.NewTicker(awayInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if r.store.requests.away.Load() {
				r.store.requests.endStalled(r.cfg.StallTimeout)
			}
		}
	}
}

// Available returns an Unavailable fault while the store does not respond. It sends no request.
func (r *Readiness) Available() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}

// Usable returns the error of a store that cannot be used before an administrator acts: one without
// conditional puts, or one that has rejected every request ever since the start (Rejection). It sends no
// request.
func (r *Readiness) Usable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.result != nil:
		return r.result
	case errors.Is(r.away, errNotChecked), !r.responded && Rejection(r.away) != "":
		return r.away
	}
	return nil
}

// Rejection says in words why a store rejects every request until an administrator acts, after "the object store"; empty for any other error.
func Rejection(err error) string {
	switch fault.ReasonOf(err) { //nolint:exhaustive // the others concern some requests, or are not of the store
	case fault.Credentials:
		return "rejects the credentials"
	case fault.Region:
		return "expects another region than SERVICE_S3_REGION"
	case fault.Clock:
		return "rejects the time of requests: the clock of this machine, or its own, is wrong"
	}
	return ""
}

// Check probes the store, and returns an Unavailable fault while it does not respond, and if it
// can't be used. It changes nothing in the store.
func (r *Readiness) Check(ctx context.Context) error {
	if err := r.ping(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known || r.probing { // it does not wait for the probe of another call
		return r.result
	}
	r.probing = true
	r.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, conditionalTimeout)
	proven, err := r.probe(bounded)
	cancel()
	r.mu.Lock()
	r.probing = false
	switch {
	case errors.Is(err, errNoConditionalPut):
		r.known, r.result = true, err
		r.log.ErrorContext(ctx, fault.From(err).Public, "error", err)
	case err == nil:
		r.known = proven
	}
	return r.result // another error proves nothing: the next call probes again
}

// ping pings the store, and records whether it responded.
func (r *Readiness) ping(ctx context.Context) error {
	for {
		err := r.pingOnce(ctx)
		if ctx.Err() != nil {
			return err
		}
		if again := r.record(ctx, err); !again {
			return r.Available()
		}
	}
}

func (r *Readiness) pingOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, probing{}, true), probeTimeout)
	defer cancel()
	return r.store.Ping(ctx)
}

// record records the result of a ping, and logs a change. It returns true if one more ping decides:
// a single one that timed out may have met a busy store.
func (r *Readiness) record(ctx context.Context, err error) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.away
	if err != nil && errors.Is(err, context.DeadlineExceeded) && !r.slow {
		r.slow = true
		return true
	}
	r.slow = false
	if err != nil {
		away := *fault.From(err)
		away.RetryAfter = awayRetryAfter
		if rejection := Rejection(err); rejection != "" {
			away.Cause = fmt.Errorf("it %s (%s): %w", rejection, away.Detail, away.Cause)
		}
		err = &away
	}
	r.away, r.responded = err, r.responded || err == nil
	r.store.requests.away.Store(err != nil)
	switch {
	case err != nil && (before == nil || errors.Is(before, errNotChecked)):
		message := "the object store is away: uploads and files are answered 503"
		if rejection := Rejection(err); rejection != "" {
			message = "the object store " + rejection + ": uploads and files are answered 503"
		}
		r.log.WarnContext(ctx, message, "error", err)
	case err == nil && before != nil && !errors.Is(before, errNotChecked):
		r.log.InfoContext(ctx, "the object store is back")
	}
	return false
}

// probe sends the probes for conditional puts. proven reports whether the store certainly has them.
func (r *Readiness) probe(ctx context.Context) (proven bool, err error) {
	if !r.probed {
		if err := r.store.probeWithoutBucket(ctx); err != nil {
			return false, err
		}
		r.probed = true
	}
	bucket, err := r.ownedBucket(ctx)
	if err != nil || bucket == "" {
		return false, err
	}
	marker, _, err := r.store.readMarker(ctx, bucket)
	if err != nil {
		return false, err
	}
	err = r.store.proveConditionalPut(ctx, bucket, marker)
	return err == nil, err
}

// observedTransport reports requests that got no response, or a failure of the store, to Readiness.
type observedTransport struct {
	next     http.RoundTripper
	troubles chan<- struct{}
}

// RoundTrip implements http.RoundTripper.
func (t observedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil && (request.Context().Err() == nil || isSilent(request.Context())) || err == nil && response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusNotImplemented {
		select {
		case t.troubles <- struct{}{}:
		default: // a probe is due already
		}
	}
	return response, err
}
