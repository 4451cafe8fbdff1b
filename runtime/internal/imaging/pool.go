// Package imaging makes pictures of images in worker processes: thumbnails and WebP conversions of uploads, and
// renditions of recipes. A Pool
// sends jobs to processes of mediastack-imaging, one at a time to each, and treats their
// output as untrusted. A worker whose decoder crashes, hangs or exceeds its memory is
// killed, and the job is retried once on a new worker. Uploads (runtime/upload) use it
// through upload.Deriver, renditions through media.Renderer. This package itself is pure Go.
package imaging

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/tracing"
)

// closeGrace is how long running jobs may take to end when the pool is closed.
const closeGrace = 5 * time.Second

// Deps are what a Pool uses.
type Deps struct {
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Pool is a set of workers with a bounded queue. It is safe for concurrent use.
type Pool struct {
	cfg     Config
	path    string // of the worker program
	log     *slog.Logger
	metrics *metrics

	// turns decides which job a worker gets. A job has its worker until that is ready for the next one.
	turns *turns
	// queueSlots has a slot for each upload that may wait for a worker, or be on its way; renderSlots one for
	// each request for a rendition.
	queueSlots, renderSlots *fairlimit.Limiter[uuid.UUID]

	// missing are the formats without a decoder, as the first worker found; nil before.
	missing atomic.Pointer[[]string]
	// lacking are the formats of pictures that the first worker has no encoder of: protocol.Formats.
	lacking atomic.Uint32

	// closeGrace is the constant, except in tests.
	closeGrace time.Duration

	jobSeq      atomic.Uint32
	avgDuration atomic.Int64 // moving average of the nanoseconds that a job takes

	workers sync.WaitGroup
	running context.Context // ends when jobs that still run are killed
	kill    context.CancelFunc
}

// New returns a running Pool. It starts one worker, and fails if that worker can't create
// images; the others start with their first job. If images are disabled, the Pool handles
// no files.
func New(ctx context.Context, cfg Config, deps Deps) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	workers := cfg.WorkerCount()
	p := &Pool{cfg: cfg, closeGrace: closeGrace, log: deps.Log, turns: newTurns(workers), queueSlots: newQueue(cfg.Queue), renderSlots: newQueue(cfg.renderQueue())}
	p.running, p.kill = context.WithCancel(context.WithoutCancel(ctx))
	if !cfg.Enabled {
		return p, nil
	}
	var err error
	if p.path, err = cfg.findWorker(); err != nil {
		return nil, err
	}
	if p.metrics, err = newMetrics(deps.Registry, p.turns.waiting); err != nil {
		return nil, err
	}
	if err := p.queueSlots.RegisterWithQueue(deps.Registry, "mediastack_image_queue_slots", "Slots of uploads of images, in the queue of the image workers"); err != nil {
		return nil, err
	}
	if err := p.renderSlots.RegisterWithQueue(deps.Registry, "mediastack_image_render_slots", "Slots of requests for pictures of presets, in the queue of the image workers"); err != nil {
		return nil, err
	}
	started := make(chan error)
	for i := range workers {
		w := &worker{pool: p}
		p.workers.Go(func() { w.run(ctx, i == 0, started) })
	}
	if err := <-started; err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// newQueue returns the slots of a queue. An account may hold half of them, and gets its first slot even when all are
// held: an account that floods the queue limits others to one image at a time, but never blocks them.
func newQueue(slots int) *fairlimit.Limiter[uuid.UUID] {
	return fairlimit.New[uuid.UUID](fairlimit.Config{Limit: slots, PerKey: max(1, slots/2), MaxWaiting: fairlimit.Unlimited, FirstBeyondLimit: true})
}

// CheckAdmission returns a Busy fault while an account holds its maximum of queue slots.
func (p *Pool) CheckAdmission(account uuid.UUID) error {
	if !p.cfg.Enabled || !p.queueSlots.KeyFull(account) {
		return nil
	}
	return p.busy()
}

// Reserve takes a queue slot for an upload of an account. It returns a Busy fault if none is free.
func (p *Pool) Reserve(account uuid.UUID) (media.ImageSlot, error) {
	if p.queueSlots.TryAcquire(account) != nil {
		return nil, p.busy()
	}
	return &queueSlot{limiter: p.queueSlots, account: account}, nil
}

// ReserveWait takes a queue slot as Reserve does, and waits until one is free. It returns a
// Busy fault if ctx ends before.
func (p *Pool) ReserveWait(ctx context.Context, account uuid.UUID) (media.ImageSlot, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.running, cancel)()
	ctx, span := tracing.Start(ctx, "images wait for slot")
	defer span.End()
	if p.queueSlots.Acquire(ctx, account) != nil {
		return nil, p.busy()
	}
	return &queueSlot{limiter: p.queueSlots, account: account}, nil
}

func (p *Pool) busy() error {
	after := time.Duration(p.avgDuration.Load()) * time.Duration(p.turns.waiting()) / time.Duration(p.cfg.WorkerCount())
	return &fault.Error{Kind: fault.Busy, Public: "too many images at once", RetryAfter: min(max(after, time.Second), time.Minute)}
}

// Handles reports whether pictures are made of files of this type and size.
func (p *Pool) Handles(mimeType string, bytes int64) bool {
	_, known := imageformat.ByType(mimeType)
	return p.cfg.Enabled && known && bytes > 0 && bytes <= p.cfg.MaxBytes
}

// Encodes reports whether pictures can be made in a format, as the first worker found.
func (p *Pool) Encodes(format settings.Format) bool {
	f, known := imageformat.ByName(string(format))
	return known && !protocol.Formats(p.lacking.Load()).Has(f) //nolint:gosec // it was stored as such a set
}

// do waits for a worker, and until it has done the job.
func (p *Pool) do(ctx context.Context, j *job) error {
	j.ctx, j.queued, j.done = ctx, time.Now(), make(chan struct{})
	_, j.wait = tracing.Start(ctx, "images wait")
	if !p.turns.enqueue(j) {
		j.fail(ErrClosed)
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	if p.turns.remove(j) {
		j.fail(fmt.Errorf("wait for an image worker: %w", ctx.Err()))
		p.metrics.jobs.WithLabelValues(resultLabel(ctx.Err(), true)).Inc()
	}
	<-j.done // a worker that has the job is killed
	return j.err
}

// Close stops the workers. Jobs that wait fail; jobs that run may take closeGrace to end.
func (p *Pool) Close() {
	for _, j := range p.turns.close() {
		j.fail(ErrClosed)
	}
	timer := time.AfterFunc(p.closeGrace, p.kill)
	defer timer.Stop()
	p.workers.Wait()
	p.kill()
}

// Check returns an Unavailable fault that names the formats of which no derivatives can be created
// because their decoders are not installed.
func (p *Pool) Check() error {
	missing := p.missing.Load()
	if missing == nil || len(*missing) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "libvips cannot read %s: such images are stored without thumbnail and conversion; install its modules and decoders", strings.Join(*missing, ", "))
}

// recordFormats records which formats a worker has decoders of.
func (p *Pool) recordFormats(found protocol.Formats) {
	missing := []string{}
	for _, f := range imageformat.Files() {
		supported := 1.0
		if !found.Has(f) {
			supported, missing = 0, append(missing, f.String())
		}
		p.metrics.formats.WithLabelValues(f.Name()).Set(supported)
	}
	p.missing.Store(&missing)
}

// logReady logs which layers of the sandbox are in effect, and which formats have no decoder.
func (p *Pool) logReady(process *process) {
	p.recordFormats(process.formats)
	if err := p.Check(); err != nil {
		p.log.Warn(fault.From(err).Public, "program", p.path, "missing", *p.missing.Load())
	}
	var lacking protocol.Formats
	for _, f := range imageformat.Encoded() {
		if f.Optional() && !process.encoders.Has(f) {
			lacking |= protocol.FormatsOf(f)
			p.log.Warn(fmt.Sprintf("libvips cannot make %s: pictures of presets are made in other formats; install %s", f, f.Encoder()), "program", p.path)
		}
	}
	p.lacking.Store(uint32(lacking))
	const all = protocol.LayerLimits | protocol.LayerPrivileges | protocol.LayerSyscalls
	p.log.Info("image workers are ready", "program", p.path, "workers", p.cfg.WorkerCount(), "sandboxed", process.sandbox == all)
}
