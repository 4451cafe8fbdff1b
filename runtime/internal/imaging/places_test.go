package imaging

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// awaits asks for a place in the background, and waits until the ask has its turn.
func awaits(t *testing.T, p *places, account uuid.UUID) <-chan *place {
	t.Helper()
	waiting := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		if one := p.of[account]; one != nil {
			return len(one.waiting)
		}
		return 0
	}
	got := make(chan *place, 1)
	before := waiting()
	go func() { got <- p.wait(t.Context(), account) }()
	for waiting() == before {
		select {
		case <-got:
			t.Fatal("it did not have to wait")
		default:
		}
	}
	return got
}

func empty(t *testing.T, p *places) {
	t.Helper()
	if p.taken != 0 || len(p.of) != 0 || len(p.turns) != 0 {
		t.Errorf("the places remember %d taken, %v, %v", p.taken, p.of, p.turns)
	}
}

// One account sent enough images at once to fill the queue, and nobody else could
// upload anything.
func TestAnAccountTakesHalfOfTheQueueAndNobodyIsLeftWithout(t *testing.T) {
	t.Parallel()
	p := newPlaces(4)
	one, two, three := uuid.New(), uuid.New(), uuid.New()
	var all []*place
	take := func(name string, account uuid.UUID, want bool) {
		t.Helper()
		got := p.take(account)
		if (got != nil) != want {
			t.Errorf("%s: a place %t, want %t", name, got != nil, want)
		}
		if got != nil {
			all = append(all, got)
		}
	}
	take("the first", one, true)
	take("the second", one, true)
	take("a third of the same account", one, false)
	take("another account's first", two, true)
	if all[0].Wanted() {
		t.Error("a place is wanted while one is free")
	}
	take("another account's second", two, true)
	if !all[0].Wanted() {
		t.Error("a place is not wanted when all are taken")
	}
	take("an account's first when all are taken", three, true)
	take("its second", three, false)
	all[0].Release()
	all[0].Release() // counts once
	take("its second, as all are taken still", three, false)
	take("that of who has the fewest", one, false)
	all[2].Release()
	take("the one that is free now", three, true)
	for _, one := range all {
		one.Release()
	}
	empty(t, p)
}

// Ninety requests at once got past a look at the length of the queue.
func TestPlacesAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	p := newPlaces(64)
	accounts := []uuid.UUID{uuid.New(), uuid.New()}
	begin := make(chan struct{})
	var all sync.WaitGroup
	taken := make([]atomic.Int64, len(accounts))
	for i := range 180 {
		all.Go(func() {
			<-begin
			if p.take(accounts[i%2]) != nil {
				taken[i%2].Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	for i := range taken {
		if n := taken[i].Load(); n != 32 {
			t.Errorf("account %d has %d places of 64", i, n)
		}
	}
}

func TestWhoWaitsForAPlaceTakesTurns(t *testing.T) {
	t.Parallel()
	p := newPlaces(2)
	busy, quiet := uuid.New(), uuid.New()
	first, other := p.take(busy), p.take(quiet)
	second, third := awaits(t, p, busy), awaits(t, p, busy)
	late := awaits(t, p, quiet)
	first.Release()
	got := <-second
	other.Release()
	if other = <-late; other == nil {
		t.Fatal("the quiet account got none")
	}
	select {
	case <-third:
		t.Error("an account has more than its share")
	default:
	}
	got.Release()
	got = <-third
	got.Release()
	other.Release()
	empty(t, p)
}

func TestWhoGivesUpWaitingIsForgotten(t *testing.T) {
	t.Parallel()
	p := newPlaces(2)
	account := uuid.New()
	held := p.take(account)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.wait(ctx, account) != nil {
		t.Error("a client that left got a place")
	}
	held.Release()
	empty(t, p)
}
