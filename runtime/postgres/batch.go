package postgres

import (
	"context"
	"sync"
	"time"
)

// Bounds of a batch.
const (
	batchLimit   = 64
	batchTimeout = 15 * time.Second
)

// batcher carries out calls of one kind together: while a batch of a key is on its
// way, later calls of that key gather for the next one. A call that comes alone goes
// at once, alone. So a busy account pays one round trip and one wait for the disk
// for many uploads, and nobody waits for company. It is safe for concurrent use.
type batcher[K comparable, C any] struct {
	// carry runs a batch and says for every call whether it was carried out.
	carry func(ctx context.Context, key K, calls []C) (done []bool, err error)

	mu      sync.Mutex
	waiting map[K][]*call[C] // a key is there while its batches run
}

type call[C any] struct {
	what  C
	ended chan struct{}
	done  bool
	err   error
}

func newBatcher[K comparable, C any](carry func(ctx context.Context, key K, calls []C) ([]bool, error)) *batcher[K, C] {
	return &batcher[K, C]{carry: carry, waiting: map[K][]*call[C]{}}
}

// do carries out one call with whatever else waits under its key. It stays for the
// outcome also when ctx ends, so that the caller always knows it; batchTimeout bounds
// that. A call whose ctx has ended before is not carried out.
func (b *batcher[K, C]) do(ctx context.Context, key K, what C) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	mine := &call[C]{what: what, ended: make(chan struct{})}
	b.mu.Lock()
	queue, running := b.waiting[key]
	b.waiting[key] = append(queue, mine)
	b.mu.Unlock()
	if !running {
		go b.run(context.WithoutCancel(ctx), key)
	}
	<-mine.ended
	return mine.done, mine.err
}

// run carries out batches of a key until nothing waits.
func (b *batcher[K, C]) run(ctx context.Context, key K) {
	for {
		b.mu.Lock()
		batch := b.waiting[key]
		if len(batch) == 0 {
			delete(b.waiting, key)
			b.mu.Unlock()
			return
		}
		batch = batch[:min(len(batch), batchLimit)]
		b.waiting[key] = b.waiting[key][len(batch):]
		b.mu.Unlock()
		b.together(ctx, key, batch)
	}
}

// together runs a batch. One call that the database refuses fails them all, so they
// are then tried alone.
func (b *batcher[K, C]) together(ctx context.Context, key K, batch []*call[C]) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	whats := make([]C, len(batch))
	for i, one := range batch {
		whats[i] = one.what
	}
	done, err := b.carry(ctx, key, whats)
	for i, one := range batch {
		switch {
		case err == nil:
			one.done = done[i]
		case len(batch) == 1 || passes(err):
			one.err = err
		default:
			var alone []bool
			if alone, one.err = b.carry(ctx, key, whats[i:i+1]); one.err == nil {
				one.done = alone[0]
			}
		}
		close(one.ended)
	}
}
