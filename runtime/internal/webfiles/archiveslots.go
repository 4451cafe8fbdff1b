package webfiles

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

const (
	// archiveRetry is when a client may ask again for an archive that got no slot: an archive is as long as a client reads it.
	archiveRetry = 30 * time.Second
	// archiveWanted is how long others are taken to wait for a slot after one of them got none: until after it asks again.
	archiveWanted = 2 * archiveRetry
	// archiveStall is how long the client of an archive may stall while others want its slot.
	archiveStall = 10 * time.Second
)

// archiveSlots are the slots of archives that are sent at a time. Nobody waits for one, but it is known for a while who got none. It is safe for
// concurrent use.
type archiveSlots struct {
	slots *fairlimit.Limiter[uuid.UUID]
	now   func() time.Time

	mu    sync.Mutex
	all   time.Time               // when an account got none because others hold all of them
	ofKey map[uuid.UUID]time.Time // when an account got none because it holds its share
}

// newArchiveSlots returns slots of which an account has a quarter.
func newArchiveSlots(archives int, now func() time.Time) *archiveSlots {
	return &archiveSlots{slots: fairlimit.New[uuid.UUID](fairlimit.Config{Limit: archives, PerKey: max(1, archives/4)}), now: now, ofKey: map[uuid.UUID]time.Time{}}
}

// acquire takes a slot for an account, or returns a Busy fault. release returns the slot.
func (s *archiveSlots) acquire(accountID uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.slots.TryAcquire(accountID)
	if err == nil {
		return nil
	}
	if errors.Is(err, fairlimit.ErrKeyLimit) {
		s.ofKey[accountID] = s.now()
	} else {
		s.all = s.now()
	}
	return &fault.Error{Kind: fault.Busy, Public: "Other archives are still being downloaded.", RetryAfter: archiveRetry, Cause: err}
}

// release returns a slot. Who got none can have this one.
func (s *archiveSlots) release(accountID uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.Release(accountID)
	delete(s.ofKey, accountID)
	s.all = time.Time{}
}

// wanted reports whether someone lately got no slot for which one of the account would do.
func (s *archiveSlots) wanted(accountID uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.now().Add(-archiveWanted)
	return s.all.After(since) || s.ofKey[accountID].After(since)
}
