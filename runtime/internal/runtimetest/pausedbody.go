package runtimetest

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"mediastack.dev/hack/testenv/wait"
)

// PausedBody is a body that is sent up to a point and then paused. Its request must have Expect:
// 100-continue: then the first part is sent when the handler asks for it, after every check of
// headers.
type PausedBody struct {
	first, rest io.Reader
	asked       chan struct{} // closed when all of the first part was read
	released    chan struct{} // closed to send the rest
	once        sync.Once
}

// NewPausedBody returns a body that is paused after first.
func NewPausedBody(first, rest io.Reader) *PausedBody {
	return &PausedBody{first: first, rest: rest, asked: make(chan struct{}), released: make(chan struct{})}
}

// Expect makes a request wait to be asked for its body.
func Expect(header http.Header) { header.Set("Expect", "100-continue") }

// Read returns the first part, and waits before the rest.
func (h *PausedBody) Read(p []byte) (int, error) {
	if n, err := h.first.Read(p); n > 0 || err == nil {
		return n, nil
	}
	h.once.Do(func() { close(h.asked) })
	<-h.released
	return h.rest.Read(p)
}

// Wait waits until the handler has asked for the body and the first part is out.
func (h *PausedBody) Wait(t *testing.T) {
	t.Helper()
	wait.Receive(t, "the handler asks for the body", h.asked)
}

// Release sends the rest. Call it once.
func (h *PausedBody) Release() { close(h.released) }
