package imaging

import (
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
	// granted has the jobs that have a worker, until it takes them. It has room for a job of each worker, so no sender waits.
	granted chan *job

	mu       sync.Mutex
	closed   bool
	free     int // workers without a job
	working  [purposes]int
	maxEager int     // workers that eager jobs may have
	last     purpose // forUpload or onDemand: which one got a worker last
	queues   [purposes]accountQueue
}

func newTurns(workers int) *turns {
	// A job of another account may come while eager ones run.
	t := &turns{granted: make(chan *job, workers), free: workers, maxEager: max(1, workers/2), last: onDemand}
	for p := range t.queues {
		t.queues[p].waiting = map[uuid.UUID][]*job{}
	}
	return t
}

// enqueue adds a job to those that wait for a worker; false if no job gets a worker any more.
func (t *turns) enqueue(j *job) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.queues[j.purpose].push(j)
	t.grant()
	return true
}

// remove reports whether the job waited, and is removed now. Otherwise it has a worker, or close has returned it.
func (t *turns) remove(j *job) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues[j.purpose].remove(j)
}

// release releases the worker of a job.
func (t *turns) release(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.working[j.purpose]--
	t.grant()
}

// close returns the jobs that wait, which get no worker any more. Those that have one are still taken.
func (t *turns) close() (waiting []*job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	close(t.granted)
	for p := range t.queues {
		for q := &t.queues[p]; q.length > 0; {
			waiting = append(waiting, q.pop())
		}
	}
	return waiting
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
	for t.free > 0 && !t.closed {
		p, ok := t.next()
		if !ok {
			return
		}
		t.free--
		t.working[p]++
		t.granted <- t.queues[p].pop()
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
	waiting  map[uuid.UUID][]*job
}

func (q *accountQueue) push(j *job) {
	if len(q.waiting[j.account]) == 0 {
		q.accounts = append(q.accounts, j.account)
	}
	q.waiting[j.account] = append(q.waiting[j.account], j)
	q.length++
}

// pop removes the next job. Its account goes to the end of the queue if it has another one.
func (q *accountQueue) pop() (next *job) {
	account := q.accounts[0]
	next = q.waiting[account][0]
	q.accounts = q.accounts[1:]
	q.length--
	if rest := q.waiting[account][1:]; len(rest) > 0 {
		q.waiting[account] = rest
		q.accounts = append(q.accounts, account)
	} else {
		delete(q.waiting, account)
	}
	return next
}

// remove reports whether the job waited, and is removed now.
func (q *accountQueue) remove(j *job) bool {
	at := slices.Index(q.waiting[j.account], j)
	if at < 0 {
		return false
	}
	q.length--
	if q.waiting[j.account] = slices.Delete(q.waiting[j.account], at, at+1); len(q.waiting[j.account]) == 0 {
		delete(q.waiting, j.account)
		q.accounts = slices.Delete(q.accounts, slices.Index(q.accounts, j.account), slices.Index(q.accounts, j.account)+1)
	}
	return true
}
