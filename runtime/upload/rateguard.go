package upload

import (
	"sync"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/minrate"
)

const (
	// idleBudget is how long an upload may stall while others wait for its slots or memory.
	idleBudget = 5 * time.Second
	// checkInterval is how often the rate of an upload is checked.
	checkInterval = time.Second
)

// rateGuard enforces Config.UploadMinTransferRate while others wait for the slots or the memory
// that an upload holds. Idle time consumes a budget; received bytes refill it. Time during
// which no other upload waits, and time spent in the object store, does not count.
type rateGuard struct {
	mu       sync.Mutex
	abort    func(why error) // nil = a read can't be aborted
	reading  bool            // the slots of the upload do not change while it reads
	received int64           // bytes since the last check
	budget   minrate.Budget
	slow     bool // the upload was below the rate, which ends it
}

// startRateMonitor checks the rate of an upload until stop is called.
func (t *transfer) startRateMonitor() (stop func()) {
	if t.service.cfg.UploadMinTransferRate == 0 {
		return func() {}
	}
	t.rate.budget = minrate.New(t.service.cfg.UploadMinTransferRate, idleBudget)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(checkInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				t.checkRate(checkInterval)
			}
		}
	}()
	return func() { close(done) }
}

// checkRate accounts for the time since the last check, and aborts a read that is too slow.
func (t *transfer) checkRate(elapsed time.Duration) {
	g := &t.rate
	g.mu.Lock()
	defer g.mu.Unlock()
	received := g.received
	g.received = 0
	switch {
	case !g.reading:
		g.budget.Record(received, 0)
		return
	case !g.slow && !t.contended():
		g.budget.Reset()
		return
	}
	g.budget.Record(received, elapsed)
	if g.slow = g.slow || g.budget.Exceeded(); g.slow && g.abort != nil {
		// A read that is about to begin may set a deadline of its own over this one; the next
		// check aborts it.
		g.abort(tooSlow())
	}
}

// contended reports whether others wait for a slot that the upload holds.
func (t *transfer) contended() bool {
	return t.uploadSlot.contended() || t.partSlot.contended() || t.imageSlot != nil && t.imageSlot.Contended()
}

// beginRead is called before a read.
func (g *rateGuard) beginRead() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = true
}

// endRead is called after a read of n bytes. It returns a Busy fault if the upload is too slow.
func (g *rateGuard) endRead(n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = false
	g.received += int64(n)
	if g.slow {
		return tooSlow()
	}
	return nil
}

func tooSlow() error {
	return &fault.Error{Kind: fault.Busy, Public: "the upload is below the minimum transfer rate while others wait; retry, or use a resumable upload", RetryAfter: 10 * time.Second}
}
