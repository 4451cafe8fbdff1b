package imaging

import (
	"context"
	"sync/atomic"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
)

// purpose is what a worker works for.
type purpose int

// The purposes.
const (
	forUpload purpose = iota // derivatives: a client waits for the end of its upload
	onDemand                 // renditions that a client waits for
	eager                    // renditions that nobody waits for
	purposes
)

// turns grants workers to jobs. While jobs of uploads and of requests wait, these two take turns: neither waits for more
// than one job of the other per worker. Jobs for which nobody waits get what is left: they begin while no other job
// waits, and have half of the workers at most. Within a purpose, accounts take turns.
type turns struct {
	accounts [purposes]*fairlimit.Limiter[uuid.UUID]
	workers  *fairlimit.Limiter[purpose]

	urgent atomic.Int64 // jobs that are not eager and have no worker yet
	idle   atomic.Int64 // eager jobs that wait until there is none
	// freed has a value when an eager job may look again whether it gets a worker.
	freed chan struct{}
}

func newTurns(workers int) *turns {
	t := &turns{freed: make(chan struct{}, 1), workers: fairlimit.New[purpose](fairlimit.Config{Limit: workers, PerKey: workers, MaxWaiting: fairlimit.Unlimited})}
	for p := range t.accounts {
		// Each purpose lets as many jobs through as there are workers: all of them may work for one purpose.
		limit := workers
		if purpose(p) == eager {
			limit = max(1, workers/2) // a job of another account may come
		}
		t.accounts[p] = fairlimit.New[uuid.UUID](fairlimit.Config{Limit: limit, PerKey: limit, MaxWaiting: fairlimit.Unlimited})
	}
	return t
}

// acquire waits for a worker. It returns ctx's error if ctx ends before.
func (t *turns) acquire(ctx context.Context, j *job) error {
	if j.purpose != eager {
		t.urgent.Add(1)
		defer func() {
			t.urgent.Add(-1)
			t.signal()
		}()
	}
	if err := t.accounts[j.purpose].Acquire(ctx, j.account); err != nil {
		return err
	}
	acquire := t.workers.Acquire
	if j.purpose == eager {
		acquire = t.acquireLeft
	}
	if err := acquire(ctx, j.purpose); err != nil {
		t.accounts[j.purpose].Release(j.account)
		return err
	}
	return nil
}

// acquireLeft acquires a worker that no other job waits for.
func (t *turns) acquireLeft(ctx context.Context, p purpose) error {
	t.idle.Add(1)
	defer t.idle.Add(-1)
	for {
		if t.urgent.Load() == 0 && t.workers.TryAcquire(p) == nil {
			t.signal() // there may be a worker for another one
			return nil
		}
		select {
		case <-t.freed:
		case <-ctx.Done():
			t.signal() // for another one
			return ctx.Err()
		}
	}
}

func (t *turns) signal() {
	select {
	case t.freed <- struct{}{}:
	default:
	}
}

// release releases the worker of a job.
func (t *turns) release(j *job) {
	t.workers.Release(j.purpose)
	t.accounts[j.purpose].Release(j.account)
	t.signal()
}

// waiting returns how many jobs wait for a worker.
func (t *turns) waiting() int {
	n := t.workers.Waiting() + int(t.idle.Load())
	for _, accounts := range t.accounts {
		n += accounts.Waiting()
	}
	return n
}
