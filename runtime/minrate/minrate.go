// Package minrate judges whether a transfer keeps up a minimum rate. The HTTP server
// sets the deadlines of reads and writes by it, and uploads are held to it while others
// wait for what they hold.
package minrate

import "time"

// Budget is how long a peer may still keep a transfer waiting. Waiting consumes it,
// bytes refill it at a rate, and it is never more than it was at the start: so a peer
// stands still for no longer than that, and stays slower than the rate only for a while.
type Budget struct {
	rate      int64
	full      time.Duration
	remaining time.Duration
}

// New returns a full Budget that bytes refill at rate bytes a second. With a rate of 0 it
// stays full: one byte within it is enough.
func New(rate int64, full time.Duration) Budget {
	return Budget{rate: rate, full: full, remaining: full}
}

// Record accounts for a transfer of n bytes during which the peer was waited for.
func (b *Budget) Record(n int64, waited time.Duration) {
	if b.rate == 0 {
		return
	}
	refill := time.Duration(float64(n) / float64(b.rate) * float64(time.Second))
	b.remaining = max(0, min(b.full, b.remaining-waited+refill))
}

// Reset makes the budget full again.
func (b *Budget) Reset() { b.remaining = b.full }

// Remaining returns how long the peer may still keep the transfer waiting.
func (b *Budget) Remaining() time.Duration { return b.remaining }

// Exceeded reports whether nothing of the budget remains.
func (b *Budget) Exceeded() bool { return b.remaining == 0 }
