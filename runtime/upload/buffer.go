package upload

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// chunkSize is the step in which buffers grow, so that a slow upload holds only about as
// much memory as it has sent. The sizes of parts are multiples of it.
const chunkSize = 256 << 10

type chunk [chunkSize]byte

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// buffer holds the bytes of a file that have arrived and are not in S3 yet, in chunks of
// which all but the last are full.
type buffer struct {
	chunks []*chunk
	size   int
	// held counts the bytes of the chunks of all buffers of a Service.
	held *atomic.Int64
}

// full reports whether the next read takes one more chunk.
func (b *buffer) full() bool { return b.size == len(b.chunks)*chunkSize }

// read appends the bytes of one Read of file, and returns them.
func (b *buffer) read(file io.Reader) (data []byte, err error) {
	at := b.size % chunkSize
	if b.full() {
		c, _ := chunks.Get().(*chunk)
		b.chunks = append(b.chunks, c)
		b.held.Add(chunkSize)
	}
	last := b.chunks[len(b.chunks)-1]
	n, err := file.Read(last[at:])
	b.size += n
	return last[at : at+n], err
}

// head returns up to n of the first bytes, n at most chunkSize.
func (b *buffer) head(n int) []byte {
	if len(b.chunks) == 0 {
		return nil
	}
	return b.chunks[0][:min(n, b.size)]
}

// reader returns a reader of the first n bytes of the buffer, which must not change before
// the reader is closed. Bytes may be appended meanwhile.
func (b *buffer) reader(n int) *bufferReader {
	count := (n + chunkSize - 1) / chunkSize
	return &bufferReader{chunks: b.chunks[:count:count], size: int64(n)}
}

// drop removes the first n bytes: whole chunks, or everything.
func (b *buffer) drop(n int) {
	dropped := (n + chunkSize - 1) / chunkSize
	b.free(b.chunks[:dropped])
	b.chunks = append(b.chunks[:0], b.chunks[dropped:]...)
	b.size -= n
}

// release frees all memory.
func (b *buffer) release() {
	b.free(b.chunks)
	b.chunks, b.size = nil, 0
}

func (b *buffer) free(unused []*chunk) {
	for _, c := range unused {
		chunks.Put(c)
	}
	b.held.Add(-int64(len(unused)) * chunkSize)
}

// bufferReader reads a part of a file for an object store, which seeks to the start when it
// retries a request. An HTTP client may read on after its request has returned; a closed
// bufferReader reads nothing, since its memory then belongs to another upload.
type bufferReader struct {
	mu     sync.Mutex
	chunks []*chunk // nil when closed
	size   int64
	at     int64
}

// Read implements io.Reader.
func (r *bufferReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.chunks == nil && r.size > 0:
		return 0, io.ErrClosedPipe
	case r.at >= r.size:
		return 0, io.EOF
	}
	in := r.at % chunkSize
	n := copy(p, r.chunks[r.at/chunkSize][in:min(chunkSize, in+r.size-r.at)])
	r.at += int64(n)
	return n, nil
}

var errSeek = errors.New("seek outside of the file")

// Seek implements io.Seeker.
func (r *bufferReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 || offset > r.size {
		return 0, errSeek
	}
	r.at = offset
	return offset, nil
}

// Close ends all reading.
func (r *bufferReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chunks = nil
	return nil
}
