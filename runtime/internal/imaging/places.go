package imaging

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
)

// places are those of the queue. An upload that turns out to be an image takes one,
// while it still arrives, and it is free again when a worker takes the job.
//
// One account may have half of them. When all are taken, an account that has none gets
// one all the same: whoever floods the queue keeps others to one image at a time each,
// and from none. It is safe for concurrent use.
type places struct {
	limit int // taken at once, besides the first of each account
	share int // taken at once by one account

	mu    sync.Mutex
	taken int
	of    map[uuid.UUID]*takers // accounts with a place, or waiting for one
	turns []uuid.UUID           // accounts that wait for one, the next one first
}

type takers struct {
	taken   int
	waiting []chan struct{} // closed to give a place
}

func newPlaces(limit int) *places {
	return &places{limit: limit, share: max(1, limit/2), of: map[uuid.UUID]*takers{}}
}

// shareUsed reports whether an account has all that it may have.
func (p *places) shareUsed(account uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of[account]
	return one != nil && one.taken >= p.share
}

// roomFor is called with the lock held.
func (p *places) roomFor(one *takers) bool {
	return one.taken < p.share && (p.taken < p.limit || one.taken == 0)
}

// ask returns a place, or else a turn.
func (p *places) ask(account uuid.UUID, waits bool) (*place, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of[account]
	if one == nil {
		one = &takers{}
		p.of[account] = one
	}
	if p.roomFor(one) {
		p.taken++
		one.taken++
		return &place{of: p, account: account}, nil
	}
	if !waits {
		return nil, nil
	}
	turn := make(chan struct{})
	if len(one.waiting) == 0 {
		p.turns = append(p.turns, account)
	}
	one.waiting = append(one.waiting, turn)
	return nil, turn
}

// take returns a place, nil when the account can have none now.
func (p *places) take(account uuid.UUID) *place {
	taken, _ := p.ask(account, false)
	return taken
}

// wait returns a place when it is the account's turn, nil when ctx ends before.
func (p *places) wait(ctx context.Context, account uuid.UUID) *place {
	taken, turn := p.ask(account, true)
	if turn == nil {
		return taken
	}
	select {
	case <-turn:
	case <-ctx.Done():
		if p.giveUp(account, turn) {
			return nil
		}
	}
	return &place{of: p, account: account}
}

// giveUp takes a turn back; false when it came meanwhile.
func (p *places) giveUp(account uuid.UUID, turn chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of[account]
	if one == nil {
		return false
	}
	at := slices.Index(one.waiting, turn)
	if at < 0 {
		return false
	}
	if one.waiting = slices.Delete(one.waiting, at, at+1); len(one.waiting) == 0 {
		p.turns = slices.DeleteFunc(p.turns, func(id uuid.UUID) bool { return id == account })
	}
	p.forget(account, one)
	return true
}

// free releases a place, to whoever's turn it is.
func (p *places) free(account uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.of[account]
	p.taken--
	left.taken--
	for range len(p.turns) {
		next := p.turns[0]
		one := p.of[next]
		p.turns = p.turns[1:]
		if p.roomFor(one) {
			close(one.waiting[0])
			one.waiting = one.waiting[1:]
			p.taken++
			one.taken++
		}
		if len(one.waiting) > 0 {
			p.turns = append(p.turns, next)
		}
	}
	p.forget(account, left)
}

// forget drops what is known of an account that has nothing here.
func (p *places) forget(account uuid.UUID, one *takers) {
	if one.taken == 0 && len(one.waiting) == 0 {
		delete(p.of, account)
	}
}

var _ media.ImagePlace = (*place)(nil)

// place is one that is taken.
type place struct {
	of      *places
	account uuid.UUID
	once    sync.Once
}

// Release releases the place.
func (p *place) Release() { p.once.Do(func() { p.of.free(p.account) }) }

// Wanted reports whether all places are taken.
func (p *place) Wanted() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.of.taken >= p.of.limit
}
