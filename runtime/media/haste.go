package media

import (
	"sync"
	"time"

	"mediastack.dev/runtime/fault"
)

const (
	// patience is how long an upload may stand still while others wait for what it holds.
	patience = 5 * time.Second
	// glance is how often somebody looks.
	glance = time.Second
)

// haste is what an upload owes to those who wait for the places or the memory that it
// holds: Config.UploadMinTransferRate. Standing still uses its patience up and bytes bring it
// back; while nobody waits, and while the object store is what it waits for, it has time.
type haste struct {
	mu        sync.Mutex
	interrupt func(why error) // nil = a read lasts as long as it lasts
	reading   bool            // what the upload holds does not change while it reads
	moved     int64           // bytes since the last glance
	left      time.Duration
	slow      bool
}

// Interruptible says how to end a read of the file from another goroutine. It may be
// called more than once, and never after Receive has returned.
func (u *Upload) Interruptible(interrupt func(why error)) { u.haste.interrupt = interrupt }

// watch looks after an upload's haste until stop is called.
func (u *Upload) watch() (stop func()) {
	if u.service.cfg.UploadMinTransferRate == 0 {
		return func() {}
	}
	u.haste.left = patience
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				u.hurry(glance)
			}
		}
	}()
	return func() { close(done) }
}

// hurry takes stock of the time since it was called last.
func (u *Upload) hurry(took time.Duration) {
	h := &u.haste
	h.mu.Lock()
	defer h.mu.Unlock()
	gained := time.Duration(float64(h.moved) / float64(u.service.cfg.UploadMinTransferRate) * float64(time.Second))
	h.moved = 0
	if !h.reading {
		h.left = min(patience, h.left+gained)
		return
	}
	if !h.slow && !u.wanted() {
		h.left = patience
		return
	}
	h.left = min(patience, h.left-took+gained)
	if h.slow = h.slow || h.left <= 0; h.slow && h.interrupt != nil {
		// A read that is about to begin may set a deadline of its own over this: there will be
		// another glance.
		h.interrupt(tooSlow())
	}
}

// wanted reports whether others wait for something that the upload holds.
func (u *Upload) wanted() bool {
	return u.service.places.wanted(u.scope.AccountID) || u.large && u.service.memory.wanted(u.scope.AccountID) ||
		u.place != nil && u.place.Wanted()
}

// begin is called before a read.
func (h *haste) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reading = true
}

// end is called after a read of n bytes, and fails when it was one too slow.
func (h *haste) end(n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reading = false
	h.moved += int64(n)
	if h.slow {
		return tooSlow()
	}
	return nil
}

func tooSlow() error {
	return &fault.Error{Kind: fault.Busy, Public: "others wait, and the upload came too slowly: try again, or send it in parts", RetryAfter: 10 * time.Second}
}
