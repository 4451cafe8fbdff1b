package imaging

import (
	"sync"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/media"
)

var _ media.ImageSlot = (*queueSlot)(nil)

// queueSlot is a slot of the queue. An upload acquires it as soon as the file is known to
// be an image, while it is still received; it is released when a worker takes the job.
type queueSlot struct {
	limiter *fairlimit.Limiter[uuid.UUID]
	account uuid.UUID
	once    sync.Once
}

// Release releases the slot once; further calls do nothing.
func (s *queueSlot) Release() { s.once.Do(func() { s.limiter.Release(s.account) }) }

// Contended reports whether all slots are held.
func (s *queueSlot) Contended() bool { return s.limiter.Full() }
