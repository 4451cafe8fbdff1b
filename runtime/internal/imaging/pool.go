// Package imaging makes thumbnails and WebP conversions in worker processes: the
// Pool hands jobs to mediastack-imaging, one at a time to each of its processes, and
// treats what comes back as the word of a stranger. A decoder that crashes, hangs or
// eats memory ends its process; the job gets one retry on a fresh one. The upload
// (runtime/media) calls it through media.Images; this package itself is pure Go.
package imaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
)

var _ media.Images = (*Pool)(nil)

const (
	// attempts is how many workers a job may fail on.
	attempts = 2
	// firstAttempts is how many workers may fail to greet before New gives up: one that is
	// killed from outside must not end the service.
	firstAttempts = 3
	// A worker is replaced after this many jobs, or when it holds this much memory
	// between two: libvips leaks a little on every broken file.
	jobsPerWorker    = 300
	residentPerIdler = 256 << 20
	// Workers that die while they start are started ever more slowly.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// closeGrace is how long running jobs may take to end when the pool is closed.
	closeGrace = 5 * time.Second
)

// handled are the types of which derivatives are made.
var handled = map[string]bool{
	"image/jpeg": true, "image/png": true, "image/vnd.mozilla.apng": true, "image/apng": true, "image/gif": true, "image/webp": true,
	"image/heic": true, "image/heic-sequence": true, "image/heif": true, "image/heif-sequence": true, "image/avif": true,
}

// Pool is a set of workers with a queue before them. It is safe for concurrent use.
type Pool struct {
	cfg     Config
	path    string
	log     *slog.Logger
	metrics *metrics

	// workers has a slot for each worker, which a job holds until its worker is ready for
	// another one. Accounts take turns.
	workers *fairlimit.Limiter[uuid.UUID]
	jobs    chan *job // to a worker that is free, from a caller that holds its slot
	// queue has a slot for each job that may wait for a worker, or be on its way.
	queue   *fairlimit.Limiter[uuid.UUID]
	numbers atomic.Uint32
	slots   sync.WaitGroup
	closing context.Context // ends when no job is taken any more
	close   context.CancelFunc
	ctx     context.Context // ends when running jobs must
	cancel  context.CancelFunc
	average atomic.Int64 // nanoseconds that a job takes, lately
}

// job is a job on its way.
type job struct {
	media.ImageJob
	ctx    context.Context
	queued time.Time
	done   chan struct{} // closed when made and err are there
	made   []media.Derivative
	err    error
}

// leave releases the place in the queue.
func (j *job) leave() {
	if j.Place != nil {
		j.Place.Release()
	}
}

// New starts the pool. One worker is started at once, so that an installation which
// can't make images says so here; the others start with their first job. With
// images switched off it gives a pool that handles nothing.
func New(ctx context.Context, cfg Config, registry prometheus.Registerer, log *slog.Logger) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, log: log, jobs: make(chan *job),
		workers: fairlimit.New[uuid.UUID](fairlimit.Config{Limit: cfg.workers(), PerKey: cfg.workers(), MaxWaiting: fairlimit.Unlimited}),
		// An account may hold half of the queue, and has always a slot: one that floods the
		// queue keeps the others to one image at a time each, and from none.
		queue: fairlimit.New[uuid.UUID](fairlimit.Config{Limit: cfg.Queue, PerKey: max(1, cfg.Queue/2), MaxWaiting: fairlimit.Unlimited, FirstBeyondLimit: true}),
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.closing, p.close = context.WithCancel(p.ctx)
	if !cfg.Enabled {
		return p, nil
	}
	var err error
	if p.path, err = cfg.find(); err != nil {
		return nil, err
	}
	if p.metrics, err = newMetrics(registry, p.workers.Waiting); err != nil {
		return nil, err
	}
	if err := p.queue.Register(registry, "mediastack_image_queue_slots", "Images on their way to a worker"); err != nil {
		return nil, err
	}
	started := make(chan error)
	for i := range cfg.workers() {
		s := &slot{pool: p}
		p.slots.Go(func() { s.run(ctx, i == 0, started) })
	}
	if err := <-started; err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Admit refuses with a Busy fault while an account has all the places of the queue that
// it may have.
func (p *Pool) Admit(account uuid.UUID) error {
	if !p.cfg.Enabled || !p.queue.KeyFull(account) {
		return nil
	}
	return p.busy()
}

// Reserve takes a place in the queue for an image of an account. Busy when there is none.
func (p *Pool) Reserve(account uuid.UUID) (media.ImagePlace, error) {
	if p.queue.TryAcquire(account) != nil {
		return nil, p.busy()
	}
	return &queueSlot{queue: p.queue, account: account}, nil
}

// Await is Reserve for who can wait. Busy when ctx ends before a place is free.
func (p *Pool) Await(ctx context.Context, account uuid.UUID) (media.ImagePlace, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if p.queue.Acquire(ctx, account) != nil {
		return nil, p.busy()
	}
	return &queueSlot{queue: p.queue, account: account}, nil
}

func (p *Pool) busy() error {
	after := time.Duration(p.average.Load()) * time.Duration(p.workers.Waiting()) / time.Duration(p.cfg.workers())
	return &fault.Error{Kind: fault.Busy, Public: "too many images at once", RetryAfter: min(max(after, time.Second), time.Minute)}
}

// Handles reports whether derivatives are made of files of this type and size.
func (p *Pool) Handles(mimeType string, bytes int64) bool {
	return p.cfg.Enabled && handled[mimeType] && bytes > 0 && bytes <= p.cfg.MaxBytes
}

// Derive waits for a worker and gives what it made. The error says what is lacking: it is a
// *Refusal, or wraps ErrWorker, ErrSource, ErrClosed or ctx's error.
func (p *Pool) Derive(ctx context.Context, request media.ImageJob) ([]media.Derivative, error) {
	if !p.Handles(request.MimeType, request.Bytes) {
		return nil, &Refusal{Reason: protocol.ReasonFormat.String(), Text: "a type or a size that is not handled"}
	}
	j := &job{ImageJob: request, ctx: ctx, queued: time.Now(), done: make(chan struct{})}
	if err := p.handOver(j); err != nil {
		return nil, err
	}
	<-j.done // a worker has the job; it is killed if ctx ends
	return j.made, j.err
}

// handOver waits for the job's turn and gives it to a worker.
func (p *Pool) handOver(j *job) error {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(p.closing, cancel)()
	if p.workers.Acquire(ctx, j.AccountID) == nil {
		if ctx.Err() == nil {
			select {
			case p.jobs <- j:
				return nil
			case <-ctx.Done():
			}
		}
		p.workers.Release(j.AccountID)
	}
	if j.ctx.Err() == nil {
		return ErrClosed
	}
	p.metrics.jobs.WithLabelValues(result(j.ctx.Err(), true)).Inc()
	return fmt.Errorf("wait for an image worker: %w", j.ctx.Err())
}

// Close ends the workers: jobs that wait fail, jobs that run may end within a few seconds.
func (p *Pool) Close() {
	p.close()
	alarm := time.AfterFunc(closeGrace, p.cancel)
	defer alarm.Stop()
	p.slots.Wait()
	p.cancel()
}

// slot is the place of one worker.
type slot struct {
	pool    *Pool
	worker  *process // nil while none runs
	backoff time.Duration
}

// run does jobs until the queue is closed.
func (s *slot) run(ctx context.Context, first bool, started chan<- error) {
	// The kernel ends a worker with the thread that started it: this one lives as long as the slot.
	runtime.LockOSThread()
	if first {
		err := s.ready(ctx)
		for attempt := 1; err != nil && ctx.Err() == nil && attempt < firstAttempts; attempt++ {
			s.pool.log.WarnContext(ctx, "the first image worker failed, trying another", "error", err)
			err = s.ready(ctx)
		}
		if err == nil {
			s.pool.announce(s.worker)
		}
		started <- err
	}
	defer func() {
		if s.worker != nil {
			s.worker.stop()
		}
	}()
	for {
		select {
		case j := <-s.pool.jobs:
			s.serve(j)
			s.refresh()
			s.pool.workers.Release(j.AccountID)
		case <-s.pool.closing.Done():
			return
		}
	}
}

// announce says what the workers are held by.
func (p *Pool) announce(w *process) {
	const all = protocol.LayerLimits | protocol.LayerPrivileges | protocol.LayerSyscalls
	p.log.Info("image workers are ready", "program", p.path, "workers", p.cfg.workers(), "sandboxed", w.locked == all)
}

// serve does one job, retry included.
func (s *slot) serve(j *job) {
	p := s.pool
	j.leave()
	begun := time.Now()
	p.metrics.waited.Observe(begun.Sub(j.queued).Seconds())
	p.metrics.busy.Inc()
	ctx, cancel := context.WithCancel(j.ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	j.made, j.err = s.try(ctx, j)
	stop()
	cancel()
	p.metrics.busy.Dec()

	cancelled := false
	switch {
	case j.err == nil:
	case j.ctx.Err() != nil:
		cancelled = true
		j.err = fmt.Errorf("make derivatives: %w", j.ctx.Err())
	case p.ctx.Err() != nil:
		cancelled = true
		j.err = ErrClosed
	}
	took := time.Since(begun)
	p.metrics.observe(result(j.err, cancelled), took)
	// A moving average, for the word to those who must come back later.
	p.average.Store((p.average.Load()*7 + int64(took)) / 8)
	close(j.done)
}

// try does a job on up to attempts workers. What one made before it failed is kept, unless
// it broke the protocol.
func (s *slot) try(ctx context.Context, j *job) (kept []media.Derivative, err error) {
	p := s.pool
	for attempt := 1; ; attempt++ {
		if err = s.ready(ctx); err == nil {
			made, usable, failure := s.worker.do(ctx, j.ImageJob, p.cfg.order(p.numbers.Add(1), j.ImageJob), p.cfg.Timeout)
			if err = failure; len(made) > len(kept) && !errors.Is(err, protocol.ErrProtocol) {
				kept = made
			}
			if !usable {
				s.drop(ctx, err)
			}
		}
		var failed *workerFault
		if !errors.As(err, &failed) || ctx.Err() != nil || attempt == attempts {
			return kept, err
		}
		p.log.WarnContext(ctx, "an image worker failed, trying another", "item", j.ItemID, "error", err)
	}
}

// drop ends a worker that failed or whose job was given up.
func (s *slot) drop(ctx context.Context, err error) {
	reason := endFailed
	if ctx.Err() != nil || errors.Is(err, ErrSource) {
		reason = endStopped
	}
	s.worker.discard()
	var failed *workerFault
	if errors.As(err, &failed) {
		failed.cause = fmt.Errorf("%w (%s)", failed.cause, s.worker.why())
	}
	s.worker = nil
	s.pool.metrics.workers.WithLabelValues(reason).Inc()
}

// ready makes sure that a worker runs.
func (s *slot) ready(ctx context.Context) error {
	if s.worker != nil {
		select {
		case <-s.worker.ended: // killed from outside, between two jobs
			s.drop(ctx, nil)
		default:
			return nil
		}
	}
	if s.backoff > 0 {
		select {
		case <-time.After(s.backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	worker, err := start(ctx, s.pool.path, s.pool.cfg.Memory, s.pool.log)
	if err != nil {
		if ctx.Err() == nil {
			s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
			s.pool.metrics.workers.WithLabelValues(endStart).Inc()
		}
		return &workerFault{err}
	}
	s.worker, s.backoff = worker, 0
	return nil
}

// refresh replaces a worker that did its share, before somebody waits for it.
func (s *slot) refresh() {
	if s.worker == nil || s.worker.jobs < jobsPerWorker && s.worker.resident() < residentPerIdler {
		return
	}
	s.worker.stop()
	s.worker = nil
	s.pool.metrics.workers.WithLabelValues(endSpent).Inc()
	if err := s.ready(s.pool.ctx); err != nil {
		s.pool.log.Warn("an image worker could not be replaced", "error", err)
	}
}
