package imaging

import (
	"slices"
	"sync"

	"github.com/google/uuid"
)

// queue holds the jobs that wait. Accounts take turns; the jobs of one account come
// in their order.
type queue struct {
	mu     sync.Mutex
	jobs   map[uuid.UUID][]*job // by account; an account without jobs is not in it
	turns  []uuid.UUID          // the accounts with jobs, the next one first
	length int
	closed bool
	// ready has one token for each job that waits, or for each worker once the queue is closed.
	ready *sync.Cond
}

func newQueue() *queue {
	q := &queue{jobs: map[uuid.UUID][]*job{}}
	q.ready = sync.NewCond(&q.mu)
	return q
}

// put takes a job in, or says that the queue is closed.
func (q *queue) put(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if len(q.jobs[j.AccountID]) == 0 {
		q.turns = append(q.turns, j.AccountID)
	}
	q.jobs[j.AccountID] = append(q.jobs[j.AccountID], j)
	q.length++
	q.ready.Signal()
	return true
}

// take waits for a job. It gives none once the queue is closed.
func (q *queue) take() (*job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.length == 0 && !q.closed {
		q.ready.Wait()
	}
	if q.closed {
		return nil, false
	}
	account := q.turns[0]
	j := q.jobs[account][0]
	q.turns = q.turns[1:]
	if q.jobs[account] = q.jobs[account][1:]; len(q.jobs[account]) > 0 {
		q.turns = append(q.turns, account)
	} else {
		delete(q.jobs, account)
	}
	q.length--
	return j, true
}

// remove takes a job out again; false when it does not wait any more.
func (q *queue) remove(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.jobs[j.AccountID]
	at := slices.Index(waiting, j)
	if at < 0 {
		return false
	}
	if q.jobs[j.AccountID] = slices.Delete(waiting, at, at+1); len(q.jobs[j.AccountID]) == 0 {
		delete(q.jobs, j.AccountID)
		q.turns = slices.DeleteFunc(q.turns, func(account uuid.UUID) bool { return account == j.AccountID })
	}
	q.length--
	return true
}

// close sends everybody who takes away, and gives the jobs that still waited.
func (q *queue) close() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	var left []*job
	for _, account := range q.turns {
		left = append(left, q.jobs[account]...)
	}
	q.jobs, q.turns, q.length = map[uuid.UUID][]*job{}, nil, 0
	q.ready.Broadcast()
	return left
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length
}
