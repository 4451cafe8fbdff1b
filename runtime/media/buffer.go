package media

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"sync"
)

// chunkSize is the step in which buffers grow, so that an upload holds about as much
// memory as it has sent, however slowly. PartSize is a multiple of it.
const chunkSize = 256 << 10

type chunk [chunkSize]byte

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// buffer collects the bytes of a file that have arrived and are not in S3 yet, in
// chunks of which all but the last are full.
type buffer struct {
	chunks []*chunk
	size   int
}

// read takes what one Read of file gives.
func (b *buffer) read(file io.Reader) (fresh []byte, err error) {
	at := b.size % chunkSize
	if at == 0 && b.size == len(b.chunks)*chunkSize {
		next, _ := chunks.Get().(*chunk)
		b.chunks = append(b.chunks, next)
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

// hash adds the first n bytes to a digest.
func (b *buffer) hash(digest hash.Hash, n int) {
	for _, one := range b.chunks {
		if n <= 0 {
			return
		}
		_, _ = digest.Write(one[:min(n, chunkSize)])
		n -= chunkSize
	}
}

// sum is the hash of everything in the buffer.
func (b *buffer) sum() SHA256 {
	digest := sha256.New()
	b.hash(digest, b.size)
	return digest.Sum(nil)
}

// body reads the first n bytes of the buffer, which must not change meanwhile.
func (b *buffer) body(n int) *body { return &body{chunks: b.chunks, size: int64(n)} }

// drop forgets the first n bytes: whole chunks, or everything.
func (b *buffer) drop(n int) {
	gone := (n + chunkSize - 1) / chunkSize
	for _, used := range b.chunks[:gone] {
		chunks.Put(used)
	}
	b.chunks = append(b.chunks[:0], b.chunks[gone:]...)
	b.size -= n
}

// release releases all memory.
func (b *buffer) release() {
	for _, used := range b.chunks {
		chunks.Put(used)
	}
	b.chunks, b.size = nil, 0
}

// body is a part of a file as an object store wants to read it: again from the start
// when a request is tried again. An HTTP client may go on reading after its request
// was given up; once a body is closed it reads nothing any more, since its memory
// then holds the bytes of another upload.
type body struct {
	mu     sync.Mutex
	chunks []*chunk // nil when closed
	size   int64
	at     int64
}

// Read returns the next bytes.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.chunks == nil && b.size > 0:
		return 0, io.ErrClosedPipe
	case b.at >= b.size:
		return 0, io.EOF
	}
	in := b.at % chunkSize
	n := copy(p, b.chunks[b.at/chunkSize][in:min(chunkSize, in+b.size-b.at)])
	b.at += int64(n)
	return n, nil
}

var errSeek = errors.New("seek outside of the file")

// Seek moves to where the next Read begins.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 || offset > b.size {
		return 0, errSeek
	}
	b.at = offset
	return offset, nil
}

// Close ends all reading.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks = nil
	return nil
}
