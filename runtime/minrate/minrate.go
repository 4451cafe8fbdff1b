// Package minrate checks that a transfer has a minimum rate. The HTTP server sets the
// deadlines of reads and writes with it. Package upload applies it to uploads while others wait
// for their slots or memory.
package minrate

import "time"

// Budget is the idle time that a peer has left. Time during which the transfer waits for the
// peer consumes it, and bytes refill it at a rate, up to its initial value. A peer can thus
// stall for at most the initial value, and can be slower than the rate only for a limited
// time.
type Budget struct {
	rate      int64
	full      time.Duration
	remaining time.Duration
}

// New returns a full Budget that bytes refill at rate bytes per second. With a rate of 0 every
// byte makes it full.
func New(rate int64, full time.Duration) Budget {
	return Budget{rate: rate, full: full, remaining: full}
}

// Record records that n bytes were transferred while the transfer waited for the peer.
func (b *Budget) Record(n int64, waited time.Duration) {
	if b.rate == 0 {
		return
	}
	refill := time.Duration(float64(n) / float64(b.rate) * float64(time.Second))
	b.remaining = max(0, min(b.full, b.remaining-waited+refill))
}

// Reset makes the budget full again.
func (b *Budget) Reset() { b.remaining = b.full }

// Remaining returns the remaining idle time.
func (b *Budget) Remaining() time.Duration { return b.remaining }

// Spent returns how much of the idle time is consumed: how long the peer has been behind the rate.
func (b *Budget) Spent() time.Duration { return b.full - b.remaining }

// Exceeded reports whether nothing of the budget remains.
func (b *Budget) Exceeded() bool { return b.remaining == 0 }
