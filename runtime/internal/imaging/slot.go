package imaging

import (
	"sync"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/media"
)

var _ media.ImagePlace = (*queueSlot)(nil)

// queueSlot is a slot of the queue that an account holds. An upload that turns out to be
// an image takes one while it still arrives, and a worker that takes the job releases it.
type queueSlot struct {
	queue   *fairlimit.Limiter[uuid.UUID]
	account uuid.UUID
	once    sync.Once
}

// Release gives the slot back, once.
func (s *queueSlot) Release() { s.once.Do(func() { s.queue.Release(s.account) }) }

// Wanted reports whether all slots are held.
func (s *queueSlot) Wanted() bool { return s.queue.Full() }
