package minrate

import (
	"errors"
	"io"
	"sync"
	"time"
)

// pacePiece is how many bytes are written between two checks.
const pacePiece = 16 << 10

// ErrTooSlow ends a response that holds what others wait for.
var ErrTooSlow = errors.New("the client reads too slowly while others wait for what it holds")

// Pace is the rate of a response that holds what others may wait for, as memory or a slot. While they do, its client must read at a rate, and may
// stall for a time in total. It is for one goroutine.
type Pace struct {
	contended func() bool
	interrupt func() // ends a write that blocks
	stall     time.Duration
	budget    Budget
}

// NewPace returns the Pace of a response whose client must read rate bytes per second, and may stall for stall, while contended reports that others
// wait. interrupt ends a write that blocks. With a rate of 0 nothing ends a response.
func NewPace(rate int64, stall time.Duration, contended func() bool, interrupt func()) *Pace {
	if rate == 0 {
		contended = func() bool { return false }
	}
	return &Pace{contended: contended, interrupt: interrupt, stall: stall, budget: New(rate, stall)}
}

// watch ends the write that begins now if it takes longer than the budget lasts while others wait: the client reads nothing. end says that the
// write has ended, and returns whether it was interrupted.
func (p *Pace) watch() (end func() (interrupted bool)) {
	var mu sync.Mutex
	ended, interrupted := false, false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(p.budget.Remaining(), func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ended:
		case p.contended():
			interrupted = true
			p.interrupt()
		default:
			timer.Reset(p.stall)
		}
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		timer.Stop()
		return interrupted
	}
}

// Write writes data in pieces. It returns ErrTooSlow if the client is too slow while others wait.
func (p *Pace) Write(to io.Writer, data []byte) (written int, err error) {
	for written < len(data) && err == nil {
		start := time.Now()
		var n int
		end := p.watch()
		n, err = to.Write(data[written:min(written+pacePiece, len(data))])
		written += n
		if end() {
			return written, errors.Join(ErrTooSlow, err)
		}
		p.budget.Record(int64(n), time.Since(start))
		switch {
		case !p.contended():
			p.budget.Reset()
		case err == nil && p.budget.Exceeded():
			err = ErrTooSlow
		}
	}
	return written, err
}
