package fetch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/minrate"
)

const (
	// graceChecks is for how many checks a job of an account of which none runs is due before others make room
	// for it. Meanwhile a process that has a free slot claims it.
	graceChecks = 2
	// idleChecks is for how many checks a server may stall while such a job waits.
	idleChecks = 6
)

// errYielded is the cause of the end of an attempt that makes room for the job of another account.
var errYielded = errors.New("jobs of the account hold several slots, and an account without one waits")

// errContended is the cause of the end of an attempt that is below Config.ContendedRate.
var errContended = errors.New("the server sends too slowly while an account waits for a slot")

// attempts are the downloads of a process that can be ended so that the accounts take turns.
type attempts struct {
	mu  sync.Mutex
	all map[uuid.UUID]*download // by job
}

// download is a running attempt as makeRoom sees it.
type download struct {
	attempt *attempt
	end     context.CancelCauseFunc
	budget  minrate.Budget // of idle time while others wait
	seen    int64          // bytes that the budget knows
}

// add adds an attempt until remove is called.
func (r *attempts) add(a *attempt, end context.CancelCauseFunc, cfg Config) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[uuid.UUID]*download{}
	}
	added := &download{attempt: a, end: end, budget: minrate.New(cfg.ContendedRate, idleChecks*cfg.CheckInterval)}
	r.all[a.claim.ID] = added
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.all[a.claim.ID] == added { // a job that was lost may be claimed again
			delete(r.all, a.claim.ID)
		}
	}
}

// find returns the download of a job; nil if this process does not run it.
func (r *attempts) find(job uuid.UUID) *download {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[job]
}

// check records the time since the last check, during which others waited or not, and returns the download
// that is too slow for others to wait; nil if there is none. Of several it is the one with the fewest bytes.
func (r *attempts) check(contended bool, elapsed time.Duration) (slow *download) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		received := d.attempt.received.Load()
		arrived := received - d.seen
		if d.seen = received; !contended {
			d.budget.Reset()
			continue
		}
		d.budget.Record(arrived, elapsed)
		if d.budget.Exceeded() && (slow == nil || received < slow.seen) {
			slow = d
		}
	}
	return slow
}

// makeRoom is Policy.Full. If an account of which no job
// runs waits, an account of which several run yields one of them, which begins again later. If there is no
// such account, a server that is below Config.ContendedRate loses its slot. So few accounts with slow servers
// cannot keep the others waiting.
func (s *Service) makeRoom(ctx context.Context) {
	starved, yields, err := s.deps.Store.StarvedFetch(ctx, graceChecks*s.cfg.CheckInterval)
	if err != nil {
		if ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "whether uploads from a URL wait is not known; the next check tries again", "error", err)
		}
		return
	}
	slow := s.running.check(starved && yields == uuid.Nil, s.cfg.CheckInterval)
	if yielding := s.running.find(yields); yielding != nil { // otherwise its process ends it
		yielding.end(errYielded)
	} else if slow != nil {
		slow.end(errContended)
	}
}
