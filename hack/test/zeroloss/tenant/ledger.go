package tenant

import (
	"crypto/sha256"
	"math/rand/v2"
	"sync"
	"time"
)

// Result is what a client saw during one operation.
type Result struct {
	Sent    int `json:"sent"`
	Retried int `json:"retried"` // sent again, because the connection failed
	Waited  int `json:"waited"`  // sent again, because Retry-After asked for it
	Failed  int `json:"failed"`
	// Failures are the first errors.
	Failures []string `json:"failures"`
	// FailedBegan is when each request began that failed.
	FailedBegan []time.Time `json:"failedBegan"`
	// LongestPause is the longest that a request took, with its retries.
	LongestPause time.Duration `json:"longestPause"`
	// Of what was acknowledged: what the service has, and what it does not have.
	Verified      int   `json:"verified"`
	VerifiedBytes int64 `json:"verifiedBytes"`
	Missing       int   `json:"missing"`
	MissingBytes  int64 `json:"missingBytes"`
	// Problems are other contradictions, and what is missing.
	Problems []string `json:"problems"`
}

// Add adds what another client saw at the same time.
func (r *Result) Add(other Result) {
	r.Sent += other.Sent
	r.Retried += other.Retried
	r.Waited += other.Waited
	r.Failed += other.Failed
	r.Verified += other.Verified
	r.VerifiedBytes += other.VerifiedBytes
	r.Missing += other.Missing
	r.MissingBytes += other.MissingBytes
	r.LongestPause = max(r.LongestPause, other.LongestPause)
	r.Failures = append(r.Failures, other.Failures...)
	r.Problems = append(r.Problems, other.Problems...)
	r.FailedBegan = append(r.FailedBegan, other.FailedBegan...)
}

// Compared is the result without the requests: what was acknowledged, as the service has it.
func (r Result) Compared() Result {
	return Result{Verified: r.Verified, VerifiedBytes: r.VerifiedBytes, Missing: r.Missing, MissingBytes: r.MissingBytes, Problems: r.Problems}
}

const maxTexts = 10

// state is what a client knows about an item.
type state int

const (
	draft state = iota
	sealed
	deleted
	// unknown is an item whose seal or delete has no answer.
	unknown
)

// item is an acknowledged one.
type item struct {
	id     string
	digest [sha256.Size]byte
	size   int
	state  state
	busy   bool // a story changes it
	phase  *phase
}

// phase counts what happens during one operation, or between two.
type phase struct {
	Result
	running int
	idle    *sync.Cond // running is 0
}

// ledger is what one client remembers.
type ledger struct {
	mu    sync.Mutex
	now   *phase
	items []*item
}

func newLedger() *ledger {
	l := &ledger{}
	l.now = l.newPhase()
	return l
}

func (l *ledger) newPhase() *phase { return &phase{idle: sync.NewCond(&l.mu)} }

// next ends a phase and begins another one. It returns the former when its requests have ended.
func (l *ledger) next() *phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	former := l.now
	l.now = l.newPhase()
	for former.running > 0 {
		former.idle.Wait()
	}
	return former
}

// counted is one request of a phase.
type counted struct {
	ledger          *ledger
	phase           *phase
	retried, waited bool
}

func (l *ledger) begin() *counted {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Sent++
	l.now.running++
	return &counted{ledger: l, phase: l.now}
}

// end counts the outcome. A part of an upload that broke off has not failed: the client resumes.
func (c *counted) end(begun time.Time, err error, resumes bool) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	p := c.phase
	if p.running--; p.running == 0 {
		p.idle.Broadcast()
	}
	p.LongestPause = max(p.LongestPause, time.Since(begun))
	if c.retried || resumes && err != nil {
		p.Retried++
	}
	if c.waited {
		p.Waited++
	}
	if err != nil && !resumes {
		p.fail(begun, err)
	}
}

// fail counts the failure of a request that began at a time.
func (p *phase) fail(begun time.Time, err error) {
	p.Failed++
	p.FailedBegan = append(p.FailedBegan, begun)
	if len(p.Failures) < maxTexts {
		p.Failures = append(p.Failures, time.Now().UTC().Format("15:04:05.000 ")+err.Error())
	}
}

// fail counts a story that could not go on for another reason than one request.
func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.fail(time.Now(), err)
}

// add remembers an item that was acknowledged in a phase, which the story that made it goes on to change.
func (l *ledger) add(id string, data []byte, p *phase) *item {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := &item{id: id, digest: sha256.Sum256(data), size: len(data), busy: true, phase: p}
	l.items = append(l.items, i)
	return i
}

func (l *ledger) set(i *item, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i.state = s
}

// release ends the changes of an item: others may read it.
func (l *ledger) release(i *item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i.busy = false
}

// pick returns an item that exists and that nobody changes; nil if there is none.
func (l *ledger) pick() *item {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range min(len(l.items), 20) {
		i := l.items[rand.IntN(len(l.items))]
		if !i.busy && (i.state == draft || i.state == sealed) {
			return i
		}
	}
	return nil
}

// of returns the items that were made in a phase; of all phases if it is nil.
func (l *ledger) of(p *phase) []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*item
	for _, i := range l.items {
		if p == nil || i.phase == p {
			found = append(found, i)
		}
	}
	return found
}

// copy returns what is known about an item now.
func (l *ledger) copy(i *item) item {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *i
}
