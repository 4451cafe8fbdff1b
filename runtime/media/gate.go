package media

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// gateLimits bound a gate.
type gateLimits struct {
	places int           // at once
	share  int           // of them for one account
	queue  int           // that wait for a place; others are refused
	wait   time.Duration // at most
}

// gate lets a bounded number in at once. Accounts take turns: one that asks for more
// than its share, or has many waiting, does not keep the others out. It is safe for
// concurrent use.
type gate struct {
	limits gateLimits

	mu      sync.Mutex
	inside  int
	waiting int
	of      map[uuid.UUID]*guests // accounts with somebody inside or waiting
	turns   []uuid.UUID           // accounts with somebody waiting, the next one first
}

type guests struct {
	inside int
	queue  []chan struct{} // closed to let in
}

func newGate(limits gateLimits) *gate {
	return &gate{limits: limits, of: map[uuid.UUID]*guests{}}
}

// enter waits for a place; leave gives it back. Busy when the queue is full or the
// wait took too long, for whatever reason ctx gives too.
func (g *gate) enter(ctx context.Context, account uuid.UUID) error {
	turn, err := g.ask(account)
	if turn == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.limits.wait)
	defer cancel()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if g.giveUp(account, turn) {
		return busy()
	}
	return nil // let in at the last moment
}

func busy() error {
	return &fault.Error{Kind: fault.Busy, Public: "too many uploads at once", RetryAfter: 2 * time.Second}
}

// ask takes a place, or a turn in the queue.
func (g *gate) ask(account uuid.UUID) (turn chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	here := g.of[account]
	if here == nil {
		here = &guests{}
		g.of[account] = here
	}
	if g.inside < g.limits.places && here.inside < g.limits.share && len(here.queue) == 0 {
		g.inside++
		here.inside++
		return nil, nil
	}
	// A queue that one account fills has still room for the others.
	if g.waiting >= g.limits.queue || len(here.queue) >= max(1, g.limits.queue/2) {
		g.forget(account, here)
		return nil, busy()
	}
	turn = make(chan struct{})
	if len(here.queue) == 0 {
		g.turns = append(g.turns, account)
	}
	here.queue = append(here.queue, turn)
	g.waiting++
	return turn, nil
}

// leave releases a place, to whoever's turn it is.
func (g *gate) leave(account uuid.UUID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	here := g.of[account]
	g.inside--
	here.inside--
	g.letIn()
	g.forget(account, here)
}

// wanted reports whether somebody waits who gets in when a guest of this account leaves.
func (g *gate) wanted(account uuid.UUID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.turns, func(who uuid.UUID) bool {
		return who == account || g.of[who].inside < g.limits.share
	})
}

// letIn grants free places to the accounts in turn.
func (g *gate) letIn() {
	for range len(g.turns) {
		if g.inside >= g.limits.places {
			return
		}
		account := g.turns[0]
		here := g.of[account]
		g.turns = g.turns[1:]
		if here.inside < g.limits.share {
			close(here.queue[0])
			here.queue = here.queue[1:]
			g.waiting--
			g.inside++
			here.inside++
		}
		if len(here.queue) > 0 {
			g.turns = append(g.turns, account)
		}
	}
}

// giveUp takes a turn back; false when it came meanwhile.
func (g *gate) giveUp(account uuid.UUID, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	here := g.of[account]
	at := -1
	if here != nil {
		at = slices.Index(here.queue, turn)
	}
	if at < 0 {
		return false
	}
	here.queue = slices.Delete(here.queue, at, at+1)
	g.waiting--
	if len(here.queue) == 0 {
		g.turns = slices.DeleteFunc(g.turns, func(id uuid.UUID) bool { return id == account })
	}
	g.forget(account, here)
	return true
}

// forget drops what is known of an account that has nobody here.
func (g *gate) forget(account uuid.UUID, here *guests) {
	if here.inside == 0 && len(here.queue) == 0 {
		delete(g.of, account)
	}
}
