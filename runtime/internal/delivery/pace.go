package delivery

import (
	"errors"
	"io"
	"sync"
	"time"

	"mediastack.dev/runtime/minrate"
)

const (
	// While others wait for the memory of a picture, its client must read paceRate bytes per second, and may stall for
	// paceStall in total.
	paceRate  = 64 << 10
	paceStall = 5 * time.Second
	// pacePiece is how many bytes are written between two checks.
	pacePiece = 16 << 10
)

// errTooSlow ends the response of a picture for whose memory others wait.
var errTooSlow = errors.New("the client reads too slowly while others wait for the memory of its picture")

// pace is the rate of a response whose bytes are in memory.
type pace struct {
	contended func() bool
	interrupt func() // ends a write that blocks
	budget    minrate.Budget
}

func newPace(contended func() bool, interrupt func()) *pace {
	return &pace{contended: contended, interrupt: interrupt, budget: minrate.New(paceRate, paceStall)}
}

// watch ends the write that begins now if it takes longer than the budget lasts while others wait: the client reads nothing. end says that the
// write has ended, and returns whether it was interrupted.
func (p *pace) watch() (end func() (interrupted bool)) {
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
			timer.Reset(paceStall)
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

// write writes data in pieces. It returns errTooSlow if the client is too slow while others wait.
func (p *pace) write(to io.Writer, data []byte) (written int, err error) {
	for written < len(data) && err == nil {
		start := time.Now()
		var n int
		end := p.watch()
		n, err = to.Write(data[written:min(written+pacePiece, len(data))])
		written += n
		if end() {
			return written, errors.Join(errTooSlow, err)
		}
		p.budget.Record(int64(n), time.Since(start))
		switch {
		case !p.contended():
			p.budget.Reset()
		case err == nil && p.budget.Exceeded():
			err = errTooSlow
		}
	}
	return written, err
}
