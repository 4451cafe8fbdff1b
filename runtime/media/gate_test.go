package media

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// enters asks for a place in the background, and waits until the ask is in the queue.
func enters(t *testing.T, g *gate, account uuid.UUID) (entered chan error) {
	t.Helper()
	entered = make(chan error, 1)
	before := g.waitingNow()
	go func() { entered <- g.enter(t.Context(), account) }()
	for g.waitingNow() == before {
		select {
		case err := <-entered:
			t.Fatalf("entered at once: %v", err)
		default:
		}
	}
	return entered
}

func (g *gate) waitingNow() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func TestAccountsTakeTurnsAtTheGate(t *testing.T) {
	t.Parallel()
	busy, quiet := uuid.New(), uuid.New()
	g := newGate(gateLimits{places: 2, share: 2, queue: 100, wait: time.Minute})
	for range 2 {
		if err := g.enter(t.Context(), busy); err != nil {
			t.Fatal(err)
		}
	}
	first, second := enters(t, g, busy), enters(t, g, busy)
	other := enters(t, g, quiet)
	g.leave(busy)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	g.leave(busy)
	// The quiet account came last and is before the busy one's second.
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-second:
		t.Errorf("the busy account was let in twice in a row: %v", err)
	default:
	}
	g.leave(quiet)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
}

func TestAnAccountLeavesTheRestOfItsShareToOthers(t *testing.T) {
	t.Parallel()
	busy, quiet := uuid.New(), uuid.New()
	g := newGate(gateLimits{places: 4, share: 3, queue: 100, wait: time.Minute})
	for range 3 {
		if err := g.enter(t.Context(), busy); err != nil {
			t.Fatal(err)
		}
	}
	fourth := enters(t, g, busy)
	if err := g.enter(t.Context(), quiet); err != nil {
		t.Fatalf("a place of the others' share: %v", err)
	}
	g.leave(quiet)
	select {
	case err := <-fourth:
		t.Errorf("the busy account got more than its share: %v", err)
	default:
	}
	g.leave(busy)
	if err := <-fourth; err != nil {
		t.Fatal(err)
	}
}

func TestAFullQueueIsBusyAndOneAccountFillsHalfOfIt(t *testing.T) {
	t.Parallel()
	busy, quiet := uuid.New(), uuid.New()
	g := newGate(gateLimits{places: 1, share: 1, queue: 4, wait: time.Minute})
	if err := g.enter(t.Context(), busy); err != nil {
		t.Fatal(err)
	}
	enters(t, g, busy)
	enters(t, g, busy)
	if err := g.enter(t.Context(), busy); !fault.Is(err, fault.Busy) || fault.Of(err).RetryAfter <= 0 {
		t.Errorf("a third in the queue of one account: %v", err)
	}
	enters(t, g, quiet)
	enters(t, g, quiet)
	if err := g.enter(t.Context(), uuid.New()); !fault.Is(err, fault.Busy) {
		t.Errorf("a fifth in the queue: %v", err)
	}
}

func TestWhoeverGivesUpIsForgotten(t *testing.T) {
	t.Parallel()
	account := uuid.New()
	g := newGate(gateLimits{places: 1, share: 1, queue: 4, wait: time.Minute})
	if err := g.enter(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.enter(ctx, uuid.New()); !fault.Is(err, fault.Busy) {
		t.Errorf("a client that left: %v", err)
	}
	g.leave(account)
	if len(g.of) != 0 || len(g.turns) != 0 || g.waiting != 0 || g.inside != 0 {
		t.Errorf("the gate remembers %+v", g)
	}
}

// Whatever happens at the gate, never more than its limits are inside, and everybody
// who neither gave up nor was refused gets in.
func TestTheGateHoldsItsLimits(t *testing.T) {
	t.Parallel()
	const places, share = 5, 3
	g := newGate(gateLimits{places: places, share: share, queue: 30, wait: time.Minute})
	var inside atomic.Int64
	accounts := make([]uuid.UUID, 4)
	of := make([]atomic.Int64, len(accounts))
	for i := range accounts {
		accounts[i] = uuid.New()
	}
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range 300 {
				at := random.IntN(len(accounts))
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(200))*time.Microsecond, cancel)
				}
				if err := g.enter(ctx, accounts[at]); err == nil {
					if inside.Add(1) > places || of[at].Add(1) > share {
						t.Error("too many are inside")
					}
					of[at].Add(-1)
					inside.Add(-1)
					g.leave(accounts[at])
				} else if !fault.Is(err, fault.Busy) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if len(g.of) != 0 || len(g.turns) != 0 || g.waiting != 0 || g.inside != 0 {
		t.Errorf("the gate remembers %+v", g)
	}
}

// A request body that was given up must not show the bytes of whoever has its memory next.
func TestBufferReader_ReadsNothingAfterClose(t *testing.T) {
	t.Parallel()
	var b buffer
	file := make([]byte, 3*chunkSize+7)
	for i := range file {
		file[i] = byte(i)
	}
	reader := &limited{data: file}
	for {
		if _, err := b.read(reader); err != nil {
			break
		}
	}
	body := b.body(b.size)
	got := make([]byte, 1000)
	if n, err := body.Read(got); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	_ = body.Close()
	b.release()
	if n, err := body.Read(got); n != 0 || err == nil {
		t.Errorf("a closed body gave %d bytes, %v", n, err)
	}
	if _, err := body.Seek(0, 0); err != nil {
		t.Error(err)
	}
	if n, err := body.Read(got); n != 0 || err == nil {
		t.Errorf("a closed body gave %d bytes from its start, %v", n, err)
	}
}

// limited gives odd pieces, as connections do.
type limited struct {
	data []byte
	at   int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.at == len(l.data) {
		return 0, context.Canceled
	}
	n := copy(p[:min(len(p), 1777)], l.data[l.at:])
	l.at += n
	return n, nil
}
