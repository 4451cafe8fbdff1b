package fairlimit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzLimiter runs a sequence of calls, one after the other, and checks after each of them
// that the bounds hold, that no slot is free while a waiter could have it, and that no
// waiter is skipped.
func FuzzLimiter(f *testing.F) {
	for seed := range uint64(32) {
		random := rand.New(rand.NewPCG(seed, 1))
		calls := make([]byte, 1000)
		for i := range calls {
			calls[i] = byte(random.Uint32())
		}
		f.Add(uint8(1+seed%6), uint8(1+seed%4), uint8(seed), seed%2 == 1, uint8(0), calls)
		f.Add(uint8(8+seed%8), uint8(seed%8), uint8(seed), seed%2 == 1, uint8(2+seed%8), calls)
	}
	f.Fuzz(func(t *testing.T, limit, perKey, maxWaiting uint8, firstBeyondLimit bool, reserve uint8, calls []byte) {
		cfg := Config{Limit: 1 + int(limit%16), PerKey: 1 + int(perKey%8), MaxWaiting: int(maxWaiting), FirstBeyondLimit: firstBeyondLimit}
		cfg.Reserve = int(reserve) % cfg.Limit
		m := model{t: t, Limiter: New[int](cfg), held: map[int]int{}, passed: map[int]map[int]int{}}
		for _, b := range calls {
			m.call(int(b&3), int(b>>2&7), int(b>>5))
			m.check()
		}
		m.end()
		checkIdle(t, m.Limiter)
	})
}

// model is a Limiter with the state that its callers observe.
type model struct {
	t *testing.T
	*Limiter[int]
	held    map[int]int // slots by key
	waiters []waiter
	// passed counts for each key that waits, and could have a slot, how many slots the
	// other keys were granted from the queue meanwhile.
	passed map[int]map[int]int
}

type waiter struct {
	key     int
	granted chan struct{}
}

func (m *model) call(kind, key, index int) {
	switch kind {
	case 0:
		granted, err := m.acquireOrEnqueue(key)
		switch {
		case granted != nil:
			m.waiters = append(m.waiters, waiter{key, granted})
		case err == nil:
			m.held[key]++
		case len(m.waiters) < m.cfg.MaxWaiting/2, m.cfg.MaxWaiting > 0 && !slices.ContainsFunc(m.waiters, func(w waiter) bool { return w.key == key }):
			m.t.Fatalf("key %d was rejected with %d waiters of %d", key, len(m.waiters), m.cfg.MaxWaiting)
		}
	case 1:
		if m.TryAcquire(key) == nil {
			m.held[key]++
		}
	case 2:
		if m.held[key] > 0 {
			m.held[key]--
			m.Release(key)
			m.collect()
		}
	case 3:
		if index < len(m.waiters) {
			if !m.cancelWait(m.waiters[index].key, m.waiters[index].granted) {
				m.t.Fatal("a waiter without a slot could not be cancelled")
			}
			m.waiters = slices.Delete(m.waiters, index, index+1)
		}
	}
}

// collect notes which waiters were granted a slot.
func (m *model) collect() {
	for i := 0; i < len(m.waiters); i++ {
		w := m.waiters[i]
		select {
		case <-w.granted:
		default:
			continue
		}
		if slices.ContainsFunc(m.waiters[:i], func(before waiter) bool { return before.key == w.key }) {
			m.t.Fatalf("a later waiter of key %d was granted a slot first", w.key)
		}
		if m.cancelWait(w.key, w.granted) {
			m.t.Fatal("a granted slot could be cancelled")
		}
		m.held[w.key]++
		m.waiters = slices.Delete(m.waiters, i, i+1)
		i--
		delete(m.passed, w.key)
		if m.InFlight() > m.cfg.Limit-m.cfg.Reserve {
			continue // a slot of the reserve, or a first one beyond the limit, takes nothing from those that may not have it
		}
		for key, passed := range m.passed {
			if passed[w.key]++; passed[w.key] > 1 {
				m.t.Fatalf("key %d was granted %d slots while key %d waited", w.key, passed[w.key], key)
			}
		}
	}
}

func (m *model) check() {
	total := 0
	for key, held := range m.held {
		total += held
		if held > m.cfg.PerKey {
			m.t.Fatalf("key %d holds %d slots of %d", key, held, m.cfg.PerKey)
		}
	}
	beyond := 0
	if m.cfg.FirstBeyondLimit {
		beyond = len(m.keys)
	}
	if m.InFlight() != total || total > m.cfg.Limit+beyond {
		m.t.Fatalf("%d slots are held, %d are counted, the limit is %d and %d", total, m.InFlight(), m.cfg.Limit, beyond)
	}
	if m.Waiting() != len(m.waiters) || len(m.waiters) > m.cfg.MaxWaiting+len(m.keys) || m.cfg.MaxWaiting == 0 && len(m.waiters) > 0 {
		m.t.Fatalf("%d wait, %d are counted, the limit is %d and one of each key", len(m.waiters), m.Waiting(), m.cfg.MaxWaiting)
	}
	waits := map[int]bool{}
	for _, w := range m.waiters {
		waits[w.key] = m.held[w.key] < m.cfg.PerKey
		reserved := m.cfg.Limit - total // those that are free, of the reserve
		if waits[w.key] && (total < m.cfg.Limit-m.cfg.Reserve || reserved > 4*m.held[w.key]*m.held[w.key] || m.cfg.FirstBeyondLimit && m.held[w.key] == 0) {
			m.t.Fatalf("key %d waits while it could have a slot", w.key)
		}
	}
	for key := range 8 {
		switch {
		case !waits[key]:
			delete(m.passed, key)
		case m.passed[key] == nil:
			m.passed[key] = map[int]int{}
		}
	}
}

// end releases all slots until no key waits.
func (m *model) end() {
	for range 10_000 {
		held := false
		for key := range m.held {
			if m.held[key] > 0 {
				held = true
				m.call(2, key, 0)
				m.check()
			}
		}
		if !held {
			break
		}
	}
	if len(m.waiters) > 0 {
		m.t.Fatalf("%d waiters never got a slot", len(m.waiters))
	}
}
