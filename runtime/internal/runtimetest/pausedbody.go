package runtimetest

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Held is a body of which one part is sent and the rest is held back. Its request must
// say Expect: 100-continue: then the first part goes out when the handler asks for it,
// behind everything that judges headers.
type Held struct {
	first, rest io.Reader
	asked       chan struct{} // closed when all of the first part is out
	let         chan struct{} // closed to let the rest go
	once        sync.Once
}

// Hold is a body that is held back behind first.
func Hold(first, rest io.Reader) *Held {
	return &Held{first: first, rest: rest, asked: make(chan struct{}), let: make(chan struct{})}
}

// Expect makes a request wait to be asked for its body.
func Expect(header http.Header) { header.Set("Expect", "100-continue") }

// Read returns the first part, and waits before the rest.
func (h *Held) Read(p []byte) (int, error) {
	if n, err := h.first.Read(p); n > 0 || err == nil {
		return n, nil
	}
	h.once.Do(func() { close(h.asked) })
	<-h.let
	return h.rest.Read(p)
}

// Wait waits until the handler has asked for the body and the first part is out.
func (h *Held) Wait(t *testing.T) {
	t.Helper()
	select {
	case <-h.asked:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody asks for the body")
	}
}

// Go lets the rest go. Call it once.
func (h *Held) Go() { close(h.let) }
