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
	maxBatchCalls = 128
	batchTimeout  = 15 * time.Second
	// batchLockTimeout is how long a batch of several accounts waits for a lock of one of them, and
	// soloLockTimeout how long each attempt of a single account does.
	batchLockTimeout = 100 * time.Millisecond
	soloLockTimeout  = 250 * time.Millisecond
	// A batch that takes longer than defaultLateAfter does not delay later ones: the next one is executed
	// beside it, on another connection. maxLate bounds how many late batches there are.
	defaultLateAfter = time.Second
	maxLate          = 2
	// maxSolo bounds the accounts that are executed separately at a time. The connections of the
	// pool must not all wait for locks.
	maxSolo = 2
)

// batcher executes calls of all accounts in batches: while a batch runs, later calls queue for the
// next one. A single call runs at once. A busy process thus pays one round trip and one disk flush
// for many uploads, and no call waits for others to arrive.
//
// A batch that cannot lock a row in time, or in which a row is rejected, changes nothing. The calls
// of each of its accounts are then executed separately, and later calls of such an account follow
// them, until none is left: an account whose row is locked delays the others once.
//
// K is the account of a call. A batcher is safe for concurrent use.
type batcher[K comparable, C any] struct {
	keyOf func(payload C) K
	// exec executes a batch and reports for every call whether it succeeded. It waits up to
	// lockTimeout for each lock.
	exec func(ctx context.Context, lockTimeout time.Duration, payloads []C) (ok []bool, err error)
	// waiting and size are metrics.
	waiting prometheus.Gauge
	size    prometheus.Observer
	// pause returns how long calls wait after a batch of this duration, so that the next batch is
	// larger; nil = not at all. They do not wait if they fill a batch.
	pause func(took time.Duration) time.Duration

	lateAfter time.Duration
	soloSlots chan struct{}

	mu     sync.Mutex
	shared lane[C]        // calls of all accounts
	solo   map[K]*lane[C] // calls of accounts that are executed separately
}

// lane is a queue of calls.
type lane[C any] struct {
	queue   []*batchCall[C]
	running bool // a batch is executed that is not late
	late    int  // batches that are late
}

type batchCall[C any] struct {
	ctx     context.Context // with the span of the call; it does not end with the caller
	payload C
	done    chan struct{}
	ok      bool
	err     error
}

func (c *batchCall[C]) end(ok bool, err error) {
	c.ok, c.err = ok, err
	close(c.done)
}

// newBatcher returns a batcher whose metrics are not exported.
func newBatcher[K comparable, C any](keyOf func(C) K, exec func(ctx context.Context, lockTimeout time.Duration, payloads []C) ([]bool, error)) *batcher[K, C] {
	return &batcher[K, C]{
		keyOf: keyOf, exec: exec, waiting: prometheus.NewGauge(prometheus.GaugeOpts{}), size: prometheus.NewHistogram(prometheus.HistogramOpts{}),
		lateAfter: defaultLateAfter, soloSlots: make(chan struct{}, maxSolo), solo: map[K]*lane[C]{},
	}
}

// Do executes one call in a batch. It waits for the result also when ctx ends, so that the caller
// always knows it; batchTimeout bounds each statement. If ctx has ended before, the call is not
// executed.
func (b *batcher[K, C]) Do(ctx context.Context, payload C) (ok bool, err error) {
	return b.do(ctx, payload, nil)
}

// DoUntil is Do that returns when ctx ends, for calls that change nothing.
func (b *batcher[K, C]) DoUntil(ctx context.Context, payload C) (ok bool, err error) {
	return b.do(ctx, payload, ctx.Done())
}

func (b *batcher[K, C]) do(ctx context.Context, payload C, abandon <-chan struct{}) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	given := ctx
	ctx, span := tracing.Start(ctx, "postgres batch")
	defer span.End()
	call := &batchCall[C]{ctx: context.WithoutCancel(ctx), payload: payload, done: make(chan struct{})}
	b.waiting.Inc()
	b.mu.Lock()
	if separate, found := b.solo[b.keyOf(payload)]; found {
		separate.queue = append(separate.queue, call)
	} else {
		b.shared.queue = append(b.shared.queue, call)
		b.startShared()
	}
	b.mu.Unlock()
	select {
	case <-call.done:
		return call.ok, call.err
	case <-abandon:
		return false, given.Err()
	}
}

// startShared begins to execute the shared lane, unless that is under way. The caller holds b.mu.
func (b *batcher[K, C]) startShared() {
	if !b.shared.running && len(b.shared.queue) > 0 {
		b.shared.running = true
		go b.runShared()
	}
}

// runShared executes batches of the shared lane until it is empty, or until one of them is late.
func (b *batcher[K, C]) runShared() {
	for {
		calls := b.dequeue(&b.shared)
		if len(calls) == 0 {
			return
		}
		started, late, ended := time.Now(), false, false
		timer := time.AfterFunc(b.lateAfter, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if late = !ended && b.shared.late < maxLate; late {
				b.shared.late++
				b.shared.running = false
				b.startShared()
			}
		})
		b.executeShared(calls)
		timer.Stop()
		b.mu.Lock()
		ended = true
		if late {
			b.shared.late--
			b.mu.Unlock()
			return
		}
		full := len(b.shared.queue) >= maxBatchCalls
		b.mu.Unlock()
		if b.pause != nil && !full {
			if pause := b.pause(time.Since(started)); pause > 0 {
				<-time.After(pause)
			}
		}
	}
}

// dequeue returns the calls of the next batch of a lane. It ends the lane's run if there are none.
func (b *batcher[K, C]) dequeue(l *lane[C]) []*batchCall[C] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(l.queue), maxBatchCalls)
	calls := l.queue[:n:n]
	l.queue = l.queue[n:]
	l.running = n > 0
	return calls
}

// executeShared executes a batch of any accounts, and starts to execute the accounts separately if
// that fails.
func (b *batcher[K, C]) executeShared(calls []*batchCall[C]) {
	b.waiting.Sub(float64(len(calls)))
	ctx, cancel := context.WithTimeout(calls[0].ctx, batchTimeout)
	defer cancel()
	ok, err := b.execute(ctx, batchLockTimeout, calls)
	if err == nil || isTransient(err) && !isLockFailure(err) {
		endAll(calls, ok, err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range calls {
		b.waiting.Inc()
		key := b.keyOf(call.payload)
		separate, found := b.solo[key]
		if !found {
			separate = &lane[C]{}
			b.solo[key] = separate
			go b.runSolo(key, separate)
		}
		separate.queue = append(separate.queue, call)
	}
}

// runSolo executes the calls of one account until none is left.
func (b *batcher[K, C]) runSolo(key K, l *lane[C]) {
	for {
		calls := b.dequeue(l)
		if len(calls) > 0 {
			b.executeSolo(calls)
			continue
		}
		b.mu.Lock()
		if len(l.queue) == 0 {
			delete(b.solo, key)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// executeSolo executes calls of one account. While a row is locked, it tries again, and leaves its
// slot to other accounts in between. One call that the database rejects fails all of them, so each
// is then executed alone.
func (b *batcher[K, C]) executeSolo(calls []*batchCall[C]) {
	b.waiting.Sub(float64(len(calls)))
	ctx, cancel := context.WithTimeout(calls[0].ctx, batchTimeout)
	defer cancel()
	ok, err := b.attempt(ctx, calls)
	if err == nil || len(calls) == 1 || isTransient(err) {
		endAll(calls, ok, err)
		return
	}
	for i, call := range calls {
		ok, err := b.attempt(ctx, calls[i:i+1])
		endAll([]*batchCall[C]{call}, ok, err)
	}
}

// attempt executes calls of one account until no row of them is locked.
func (b *batcher[K, C]) attempt(ctx context.Context, calls []*batchCall[C]) (ok []bool, err error) {
	for {
		b.soloSlots <- struct{}{}
		ok, err = b.execute(ctx, soloLockTimeout, calls)
		<-b.soloSlots
		if err == nil || !isLockFailure(err) || ctx.Err() != nil {
			return ok, err
		}
	}
}

// execute executes one batch. Its statements are in the trace of its first call; the spans of the
// others have a link to it.
func (b *batcher[K, C]) execute(ctx context.Context, lockTimeout time.Duration, calls []*batchCall[C]) ([]bool, error) {
	payloads := make([]C, len(calls))
	for i, call := range calls {
		payloads[i] = call.payload
		if i > 0 {
			trace.SpanFromContext(call.ctx).AddLink(trace.LinkFromContext(calls[0].ctx))
		}
	}
	b.size.Observe(float64(len(calls)))
	return b.exec(ctx, lockTimeout, payloads)
}

// endAll ends calls with the result of their batch.
func endAll[C any](calls []*batchCall[C], ok []bool, err error) {
	for i, call := range calls {
		call.end(err == nil && ok[i], err)
	}
}
