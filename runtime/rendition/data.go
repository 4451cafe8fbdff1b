package rendition

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

const (
	// smallData is the size in bytes up to which a rendition that was just made is sent from memory also after it was
	// stored. The requests that hold such data are bounded as downloads are.
	smallData = 256 << 10
	// dataSlotRetry is when a request may try again that found no slot for its data.
	dataSlotRetry = 2 * time.Second
)

// hold is the use of the data of a result by one request.
type hold struct {
	once      sync.Once
	free      func()
	contended func() bool // nil = never
}

// Release says that the caller does not need Data any more. Every caller of Get and Lost releases each result that it got,
// when its response has ended or needs no data: until then no other rendition can have the memory. Further calls, also of
// copies, do nothing.
func (r Result) Release() {
	if r.hold != nil {
		r.hold.once.Do(r.hold.free)
	}
}

// Contended reports whether another rendition waits for the memory of Data: a client that reads too slowly should not
// keep it then.
func (r Result) Contended() bool {
	return r.hold != nil && r.hold.contended != nil && r.hold.contended()
}

// WithContended returns the result with a Contended that calls contended. It has a Release of its own.
func (r Result) WithContended(contended func() bool) Result {
	r.hold = &hold{free: r.Release, contended: contended}
	return r
}

// WithRelease returns the result with a Release that calls free, once.
func (r Result) WithRelease(free func()) Result {
	r.hold = &hold{free: free}
	return r
}

// newDataSlots returns the slots for the data of jobs. One account may hold half of them. Unlike in the queue of the
// image workers none is granted beyond them: a slot stands for memory.
func newDataSlots(jobs int) *fairlimit.Limiter[uuid.UUID] {
	return fairlimit.New[uuid.UUID](fairlimit.Config{Limit: jobs, PerKey: max(1, jobs/2), MaxWaiting: fairlimit.Unlimited})
}

// acquireDataSlot waits for a slot for the data of a job, and returns the function that frees it. The caller holds a slot of
// the queue of renditions, which bounds how many wait. It returns Busy if none was free for dataSlotWait.
func (s *Service) acquireDataSlot(ctx context.Context, account uuid.UUID) (free func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, s.dataSlotWait)
	defer cancel()
	switch err := s.dataSlots.Acquire(waiting, account); {
	case err == nil:
		return sync.OnceFunc(func() { s.dataSlots.Release(account) }), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &fault.Error{Kind: fault.Busy, Public: "too many pictures are being made and sent", RetryAfter: dataSlotRetry, Cause: err}
	default:
		return nil, err
	}
}
