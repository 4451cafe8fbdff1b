package imaging

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/tracing"
)

const (
	// maxAttempts is how many processes a job may fail on.
	maxAttempts = 2
	// startAttempts is how many processes may fail to start before New fails: a single one
	// may have been killed from outside.
	startAttempts = 3
	// A process is replaced after this many jobs, or if it holds this much memory between two
	// jobs: libvips leaks a little memory on every broken file.
	maxJobs    = 300
	maxIdleRSS = 256 << 20
	// Backoff of processes that fail to start.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// worker does jobs with one process at a time.
type worker struct {
	pool    *Pool
	process *process // nil while none runs
	backoff time.Duration
}

// run does jobs until the pool is closed. The first worker reports on started whether its
// process runs.
func (w *worker) run(ctx context.Context, first bool, started chan<- error) {
	// The kernel kills a process when the thread that started it ends.
	runtime.LockOSThread()
	if first {
		started <- w.startFirst(ctx)
	}
	defer func() {
		if w.process != nil {
			w.process.stop()
		}
	}()
	for j := range w.pool.turns.granted {
		w.do(j)
		w.recycleIfNeeded()
		w.pool.turns.release(j)
	}
}

func (w *worker) startFirst(ctx context.Context) error {
	err := w.ensureProcess(ctx)
	for attempt := 1; err != nil && ctx.Err() == nil && attempt < startAttempts; attempt++ {
		w.pool.log.WarnContext(ctx, "starting the first image worker failed, retrying", "error", err)
		err = w.ensureProcess(ctx)
	}
	if err == nil {
		w.pool.logReady(w.process)
	}
	return err
}

// do does a job, including its retry.
func (w *worker) do(j *job) {
	p := w.pool
	if !j.take() {
		j.err = fmt.Errorf("wait for an image worker: %w", j.ctx.Err())
		p.metrics.jobs.WithLabelValues(resultLabel(j.err, true)).Inc()
		close(j.done)
		return
	}
	start := time.Now()
	p.metrics.queueWait.Observe(start.Sub(j.queued).Seconds())
	p.metrics.busy.Inc()
	ctx, cancel := context.WithCancel(j.ctx)
	unregister := context.AfterFunc(p.running, cancel)
	j.made, j.err = w.tryJob(ctx, j)
	unregister()
	cancel()
	p.metrics.busy.Dec()

	canceled := false
	switch {
	case j.err == nil:
	case j.ctx.Err() != nil:
		canceled = true
		j.err = fmt.Errorf("make pictures: %w", j.ctx.Err())
	case p.running.Err() != nil:
		canceled = true
		j.err = ErrClosed
	}
	elapsed := time.Since(start)
	p.metrics.observe(resultLabel(j.failure(), canceled), elapsed)
	p.avgDuration.Store((p.avgDuration.Load()*7 + int64(elapsed)) / 8)
	close(j.done)
}

// tryJob does a job on up to maxAttempts processes. Facts and pictures that a process made before
// it failed are kept, unless it violated the protocol.
func (w *worker) tryJob(ctx context.Context, j *job) (kept result, err error) {
	p := w.pool
	for attempt := 1; ; attempt++ {
		attemptCtx, span := tracing.Start(ctx, "images job", trace.WithAttributes(attribute.Int("mediastack.attempt", attempt)))
		if err = w.ensureProcess(ctx); err == nil {
			made, usable, failure := w.process.roundTrip(attemptCtx, j, p.cfg.newJobRequest(p.jobSeq.Add(1), j), p.cfg.Timeout)
			if err = failure; err == nil || made.complete() > kept.complete() && !errors.Is(err, protocol.ErrProtocol) {
				kept = made
			}
			if !usable {
				w.killProcess(ctx, err)
			}
		}
		if err != nil {
			tracing.Fail(span, resultLabel(err, ctx.Err() != nil))
		}
		span.End()
		var failed *workerError
		// A file that took too long would hold a second worker as long, for a request that has waited already.
		slow := j.purpose == onDemand && errors.Is(err, errTimeout)
		if !errors.As(err, &failed) || ctx.Err() != nil || attempt == maxAttempts || slow {
			return kept, err
		}
		p.log.WarnContext(ctx, "image worker failed, retrying on a new one", "item", j.item, "error", err)
	}
}

// killProcess kills a process that failed, or whose job was canceled.
func (w *worker) killProcess(ctx context.Context, err error) {
	exit := exitCrashed
	if ctx.Err() != nil || errors.Is(err, ErrSource) {
		exit = exitCanceled
	}
	w.process.terminate()
	var failed *workerError
	if errors.As(err, &failed) {
		failed.cause = fmt.Errorf("%w (%s)", failed.cause, w.process.exitReason())
	}
	w.process = nil
	w.pool.metrics.exits.WithLabelValues(exit).Inc()
}

// ensureProcess starts a process unless one runs.
func (w *worker) ensureProcess(ctx context.Context) error {
	if w.process != nil {
		select {
		case <-w.process.exited: // killed from outside, between two jobs
			w.killProcess(ctx, nil)
		default:
			return nil
		}
	}
	if w.backoff > 0 {
		select {
		case <-time.After(w.backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	process, err := start(ctx, w.pool.path, w.pool.cfg.Memory, w.pool.log)
	if err != nil {
		if ctx.Err() == nil {
			w.backoff = min(max(2*w.backoff, minBackoff), maxBackoff)
			w.pool.metrics.exits.WithLabelValues(exitStartFailed).Inc()
		}
		return &workerError{fmt.Errorf("%w: %w", errStart, err)}
	}
	w.process, w.backoff = process, 0
	return nil
}

// recycleIfNeeded replaces a process that did maxJobs, or holds too much memory, before the
// next job waits for it.
func (w *worker) recycleIfNeeded() {
	if w.process == nil || w.process.jobs < maxJobs && w.process.rss() < maxIdleRSS {
		return
	}
	w.process.stop()
	w.process = nil
	w.pool.metrics.exits.WithLabelValues(exitRecycled).Inc()
	if err := w.ensureProcess(w.pool.running); err != nil {
		w.pool.log.Warn("replacing an image worker failed", "error", err)
	}
}
