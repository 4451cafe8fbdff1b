package imaging

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"
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
// waits, and have half of the workers at most. Within a purpose, accounts take turns. It is safe for concurrent use.
type turns struct {
	mu       sync.Mutex
	free     int // workers without a job
	working  [purposes]int
	maxEager int     // workers that eager jobs may have
	last     purpose // forUpload or onDemand: which one got a worker last
	queues   [purposes]accountQueue
}

func newTurns(workers int) *turns {
	// A job of another account may come while eager ones run.
	t := &turns{free: workers, maxEager: max(1, workers/2), last: onDemand}
	for p := range t.queues {
		t.queues[p].waiting = map[uuid.UUID][]chan struct{}{}
	}
	return t
}

// acquire waits for a worker. It returns ctx's error if ctx ends before.
func (t *turns) acquire(ctx context.Context, j *job) error {
	granted := t.enqueue(j)
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.queues[j.purpose].remove(j.account, granted) {
		return nil // granted at the same moment
	}
	t.grant() // an eager job may have waited for this one
	return ctx.Err()
}

// enqueue returns a channel that is closed when the job has a worker.
func (t *turns) enqueue(j *job) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	granted := make(chan struct{})
	t.queues[j.purpose].push(j.account, granted)
	t.grant()
	return granted
}

// release releases the worker of a job.
func (t *turns) release(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.working[j.purpose]--
	t.grant()
}

// waiting returns how many jobs wait for a worker.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for p := range t.queues {
		n += t.queues[p].length
	}
	return n
}

// grant grants the workers that are free.
func (t *turns) grant() {
	for t.free > 0 {
		p, ok := t.next()
		if !ok {
			return
		}
		t.free--
		t.working[p]++
		close(t.queues[p].pop())
	}
}

// next returns the purpose whose turn it is.
func (t *turns) next() (p purpose, ok bool) {
	other := forUpload + onDemand - t.last
	switch {
	case t.queues[other].length > 0:
		t.last = other
		return other, true
	case t.queues[t.last].length > 0:
		return t.last, true
	}
	return eager, t.queues[eager].length > 0 && t.working[eager] < t.maxEager
}

// accountQueue is the jobs of one purpose that wait. The accounts take turns; the jobs of one account keep their order.
type accountQueue struct {
	length   int
	accounts []uuid.UUID // that wait, the next one first
	waiting  map[uuid.UUID][]chan struct{}
}

func (q *accountQueue) push(account uuid.UUID, granted chan struct{}) {
	if len(q.waiting[account]) == 0 {
		q.accounts = append(q.accounts, account)
	}
	q.waiting[account] = append(q.waiting[account], granted)
	q.length++
}

// pop removes the next job. Its account goes to the end of the queue if it has another one.
func (q *accountQueue) pop() (granted chan struct{}) {
	account := q.accounts[0]
	granted = q.waiting[account][0]
	q.accounts = q.accounts[1:]
	q.length--
	if rest := q.waiting[account][1:]; len(rest) > 0 {
		q.waiting[account] = rest
		q.accounts = append(q.accounts, account)
	} else {
		delete(q.waiting, account)
	}
	return granted
}

// remove reports whether the job waited, and is removed now.
func (q *accountQueue) remove(account uuid.UUID, granted chan struct{}) bool {
	at := slices.Index(q.waiting[account], granted)
	if at < 0 {
		return false
	}
	q.length--
	if q.waiting[account] = slices.Delete(q.waiting[account], at, at+1); len(q.waiting[account]) == 0 {
		delete(q.waiting, account)
		q.accounts = slices.Delete(q.accounts, slices.Index(q.accounts, account), slices.Index(q.accounts, account)+1)
	}
	return true
}
