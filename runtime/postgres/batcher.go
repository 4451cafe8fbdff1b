package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/tracing"
)

// Bounds of a batch.
const (
	maxBatchCalls = 64
	batchTimeout  = 15 * time.Second
)

// batcher executes calls in batches: while a batch of a key runs, later calls of that key
// queue for the next one. A single call runs at once. A busy account thus pays one round trip
// and one disk flush for many uploads, and no call waits for others to arrive. It is safe for
// concurrent use.
type batcher[K comparable, C any] struct {
	// exec executes a batch and reports for every call whether it succeeded.
	exec func(ctx context.Context, key K, payloads []C) (ok []bool, err error)
	// waiting and size are metrics.
	waiting prometheus.Gauge
	size    prometheus.Observer

	mu    sync.Mutex
	queue map[K][]*batchCall[C] // has a key while its batches run
}

type batchCall[C any] struct {
	ctx     context.Context // with the span of the call; it does not end with the caller
	payload C
	done    chan struct{}
	ok      bool
	err     error
}

// newBatcher returns a batcher whose metrics are not exported.
func newBatcher[K comparable, C any](exec func(ctx context.Context, key K, payloads []C) ([]bool, error)) *batcher[K, C] {
	return &batcher[K, C]{exec: exec, waiting: prometheus.NewGauge(prometheus.GaugeOpts{}), size: prometheus.NewHistogram(prometheus.HistogramOpts{}), queue: map[K][]*batchCall[C]{}}
}

// Do executes one call in a batch of its key. It waits for the result also when ctx ends, so
// that the caller always knows it; batchTimeout bounds the wait. If ctx has ended before, the
// call is not executed.
func (b *batcher[K, C]) Do(ctx context.Context, key K, payload C) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ctx, span := tracing.Start(ctx, "postgres batch")
	defer span.End()
	call := &batchCall[C]{ctx: context.WithoutCancel(ctx), payload: payload, done: make(chan struct{})}
	b.mu.Lock()
	calls, running := b.queue[key]
	b.queue[key] = append(calls, call)
	b.mu.Unlock()
	b.waiting.Inc()
	if !running {
		go b.run(key)
	}
	<-call.done
	return call.ok, call.err
}

// run executes batches of a key until its queue is empty. One call that the database rejects
// fails the whole batch, so each is then executed alone. The statements of a batch are in the trace
// of its first call; the spans of the others have a link to it.
func (b *batcher[K, C]) run(key K) {
	for calls := b.dequeue(key); len(calls) > 0; calls = b.dequeue(key) {
		payloads := make([]C, len(calls))
		for i, call := range calls {
			payloads[i] = call.payload
			if i > 0 {
				trace.SpanFromContext(call.ctx).AddLink(trace.LinkFromContext(calls[0].ctx))
			}
		}
		b.waiting.Sub(float64(len(calls)))
		b.size.Observe(float64(len(calls)))
		batchCtx, cancel := context.WithTimeout(calls[0].ctx, batchTimeout)
		ok, err := b.exec(batchCtx, key, payloads)
		for i, call := range calls {
			switch {
			case err == nil:
				call.ok = ok[i]
			case len(calls) == 1 || isTransient(err):
				call.err = err
			default:
				var alone []bool
				if alone, call.err = b.exec(batchCtx, key, payloads[i:i+1]); call.err == nil {
					call.ok = alone[0]
				}
			}
			close(call.done)
		}
		cancel()
	}
}

// dequeue returns the calls of the next batch of a key. It deletes the key if there are none.
func (b *batcher[K, C]) dequeue(key K) []*batchCall[C] {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := b.queue[key]
	if len(queued) == 0 {
		delete(b.queue, key)
		return nil
	}
	n := min(len(queued), maxBatchCalls)
	b.queue[key] = queued[n:]
	return queued[:n]
}
