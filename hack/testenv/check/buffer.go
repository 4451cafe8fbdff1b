package check

import (
	"bytes"
	"sync"
)

// Buffer is a bytes.Buffer that tests read while others write it, such as a log.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
