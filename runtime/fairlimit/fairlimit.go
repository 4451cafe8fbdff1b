// Package fairlimit bounds how many operations run at once, fairly between keys: a key
// is an account or a client network. Uploads, part memory, image workers, image queue
// slots and downloads each have a Limiter. The package does not depend on the operations.
package fairlimit

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
)

// Unlimited is the value of a bound that never applies.
const Unlimited = math.MaxInt

// Errors for a key that gets no slot.
var (
	// ErrLimit is returned when all slots that the key could get are held.
	ErrLimit = errors.New("all slots are held")
	// ErrKeyLimit is returned when the key holds as many slots as one key may.
	ErrKeyLimit = errors.New("the key holds its maximum of slots")
	// ErrQueueFull is returned when too many callers wait.
	ErrQueueFull = errors.New("too many callers wait for a slot")
)

// Config bounds a Limiter.
type Config struct {
	// Limit is how many slots there are.
	Limit int
	// PerKey is how many of them one key may hold.
	PerKey int
	// MaxWaiting is how many callers may wait for a slot; 0 = none may. One key may fill
	// half of the queue, and may always have one caller in it, also if others have filled it.
	MaxWaiting int
	// FirstBeyondLimit grants a slot to a key that holds none even when all are held.
	FirstBeyondLimit bool
	// Reserve is how many of the slots, the last ones that are free, are for keys that hold few: a key with
	// n slots gets one of them only while more than 4n² are free. So a key has a few of them at most, fewer
	// the more keys have some, and the next key finds one. ReserveOf returns a suitable number.
	Reserve int
}

// reserveFactor is how many slots of Config.Reserve are left for the first ones of other keys when a key that
// holds one slot may have no other.
const reserveFactor = 4

// ReserveOf returns a Config.Reserve that takes nothing from a key which is alone: what one key may not hold,
// at most a quarter of the limit.
func ReserveOf(limit, perKey int) int {
	return max(0, min(limit/4, limit-perKey))
}

// Limiter is a semaphore whose slots are granted in rounds over the keys that wait, so
// that a key with many waiters does not delay the others. The waiters of one key are
// served in their order. State of a key is kept only while the key holds a slot or waits.
// A Limiter is safe for concurrent use.
type Limiter[K comparable] struct {
	cfg Config

	mu       sync.Mutex
	inFlight int
	waiting  int
	keys     map[K]*keyState // keys that hold a slot or wait for one
	queue    []K             // keys that wait, the next one first
}

type keyState struct {
	inFlight int
	waiters  []chan struct{} // closed when the slot is granted
}

// New returns a Limiter whose slots are all free.
func New[K comparable](cfg Config) *Limiter[K] {
	return &Limiter[K]{cfg: cfg, keys: map[K]*keyState{}}
}

// TryAcquire acquires a slot for key without waiting. It returns ErrLimit, also if only slots of the reserve
// are free that the key may not have, or ErrKeyLimit if only the key's own bound is reached. Release
// releases the slot.
func (l *Limiter[K]) TryAcquire(key K) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.state(key)
	defer l.evictIfIdle(key, state)
	switch {
	case l.canAcquire(state):
		l.grant(state)
		return nil
	case l.inFlight >= l.cfg.Limit, state.inFlight < l.cfg.PerKey:
		return ErrLimit
	}
	return ErrKeyLimit
}

// Acquire acquires a slot for key; if none is free it waits until one is granted. It returns
// ErrQueueFull, or ctx's error if ctx ends first. Release releases the slot.
func (l *Limiter[K]) Acquire(ctx context.Context, key K) error {
	granted, err := l.acquireOrEnqueue(key)
	if granted == nil {
		return err
	}
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	if l.cancelWait(key, granted) {
		return ctx.Err()
	}
	return nil // granted at the same moment
}

// Release releases a slot of key, and grants the slots that are free now.
func (l *Limiter[K]) Release(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.keys[key]
	if state == nil || state.inFlight == 0 {
		panic("fairlimit: Release without a slot")
	}
	l.inFlight--
	state.inFlight--
	l.grantNext()
	l.evictIfIdle(key, state)
}

// HasWaiters reports whether a caller waits that could get a slot which key releases.
func (l *Limiter[K]) HasWaiters(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.queue, func(waiting K) bool {
		return waiting == key || l.keys[waiting].inFlight < l.cfg.PerKey
	})
}

// Full reports whether all slots are held.
func (l *Limiter[K]) Full() bool { return l.InFlight() >= l.cfg.Limit }

// KeyFull reports whether key holds as many slots as one key may.
func (l *Limiter[K]) KeyFull(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.keys[key]
	return state != nil && state.inFlight >= l.cfg.PerKey
}

// InFlight returns how many slots are held.
func (l *Limiter[K]) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

// Waiting returns how many callers wait for a slot.
func (l *Limiter[K]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// acquireOrEnqueue acquires a slot, or returns a channel that is closed when one is granted.
func (l *Limiter[K]) acquireOrEnqueue(key K) (granted chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.state(key)
	defer l.evictIfIdle(key, state)
	// A key with waiters can't acquire a slot: slots that are free are granted at once.
	if l.canAcquire(state) {
		l.grant(state)
		return nil, nil
	}
	if !l.mayWait(state) {
		return nil, ErrQueueFull
	}
	granted = make(chan struct{})
	if len(state.waiters) == 0 {
		l.queue = append(l.queue, key)
	}
	state.waiters = append(state.waiters, granted)
	l.waiting++
	return granted, nil
}

// mayWait reports whether one more caller of a key may wait.
func (l *Limiter[K]) mayWait(state *keyState) bool {
	if len(state.waiters) == 0 {
		return l.cfg.MaxWaiting > 0
	}
	return l.waiting < l.cfg.MaxWaiting && len(state.waiters) < l.cfg.MaxWaiting/2
}

// cancelWait takes a waiter out of the queue. It returns false if the slot has been granted.
func (l *Limiter[K]) cancelWait(key K, granted chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.keys[key]
	if state == nil {
		return false
	}
	at := slices.Index(state.waiters, granted)
	if at < 0 {
		return false
	}
	state.waiters = slices.Delete(state.waiters, at, at+1)
	l.waiting--
	if len(state.waiters) == 0 {
		l.queue = slices.DeleteFunc(l.queue, func(waiting K) bool { return waiting == key })
	}
	l.evictIfIdle(key, state)
	return true
}

// grantNext grants the slots that are free to waiters. A key that got one goes to the back
// of the queue; a key that may have none now keeps its turn.
func (l *Limiter[K]) grantNext() {
	for l.inFlight < l.cfg.Limit || l.cfg.FirstBeyondLimit {
		at := slices.IndexFunc(l.queue, func(key K) bool { return l.canAcquire(l.keys[key]) })
		if at < 0 {
			return
		}
		key := l.queue[at]
		state := l.keys[key]
		close(state.waiters[0])
		state.waiters = state.waiters[1:]
		l.waiting--
		l.grant(state)
		if l.queue = slices.Delete(l.queue, at, at+1); len(state.waiters) > 0 {
			l.queue = append(l.queue, key)
		}
	}
}

// canAcquire reports whether a key may get one more slot now.
func (l *Limiter[K]) canAcquire(state *keyState) bool {
	free := l.cfg.Limit - l.inFlight
	return state.inFlight < l.cfg.PerKey &&
		(free > l.cfg.Reserve || free > reserveFactor*state.inFlight*state.inFlight || l.cfg.FirstBeyondLimit && state.inFlight == 0)
}

func (l *Limiter[K]) grant(state *keyState) {
	l.inFlight++
	state.inFlight++
}

// state returns the state of a key, a new one if the key is idle.
func (l *Limiter[K]) state(key K) *keyState {
	state := l.keys[key]
	if state == nil {
		state = &keyState{}
		l.keys[key] = state
	}
	return state
}

// evictIfIdle drops the state of a key that holds no slot and has no waiters.
func (l *Limiter[K]) evictIfIdle(key K, state *keyState) {
	if state.inFlight == 0 && len(state.waiters) == 0 {
		delete(l.keys, key)
	}
}
