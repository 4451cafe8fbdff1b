package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"mediastack.dev/runtime/media"
)

// readWindow is the length of reads from the object store if the length of the body is not
// known: in responses with several ranges.
const readWindow = 1 << 20

// content is an object as the io.ReadSeeker of http.ServeContent. It requests only the bytes
// that are read. It is safe for concurrent use, because http.ServeContent reads several
// ranges in a separate goroutine.
type content struct {
	ctx     context.Context // Read has no parameter for it
	objects Objects
	small   *smallObjects
	bucket  string
	object  media.Object
	// data are the bytes of the object if they are in memory.
	data []byte

	mu        sync.Mutex
	offset    int64 // of the next Read
	body      io.ReadCloser
	remaining int64 // bytes of body
	err       error // the first failure of the object store
}

var errSeek = errors.New("seek outside of the file")

// Seek sets the offset of the next Read.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += c.offset
	case io.SeekEnd:
		offset += c.object.Bytes
	}
	if offset < 0 || offset > c.object.Bytes {
		return 0, errSeek
	}
	if offset != c.offset {
		c.closeBody()
		c.offset = offset
	}
	return offset, nil
}

// Read reads the next bytes, and opens the object if necessary.
func (c *content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if c.offset >= c.object.Bytes {
		return 0, io.EOF
	}
	if c.body == nil || c.remaining == 0 {
		if err := c.open(min(readWindow, c.object.Bytes-c.offset)); err != nil {
			return 0, err
		}
	}
	n, err := c.body.Read(p[:min(int64(len(p)), c.remaining)])
	c.offset += int64(n)
	c.remaining -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && c.remaining > 0:
		c.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, io.EOF):
		c.err = err
	}
	return n, c.err
}

// preopen opens the object at the offset. length is that of the body, negative if it is not
// known.
func (c *content) preopen(length int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if length < 0 {
		length = min(readWindow, c.object.Bytes-c.offset)
	}
	if length == 0 {
		return nil
	}
	return c.open(length)
}

// fail makes every Read return err: http.ServeContent reads even if WriteHeader failed, and
// those reads must not reach the object store.
func (c *content) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// open requests length bytes from the offset.
func (c *content) open(length int64) error {
	c.closeBody()
	if c.data == nil && c.small.holds(c.object) {
		if c.data, c.err = c.small.read(c.ctx, c.bucket, c.object); c.err != nil {
			return c.err
		}
	}
	if c.data != nil {
		c.body, c.remaining = io.NopCloser(bytes.NewReader(c.data[c.offset:c.offset+length])), length
		return nil
	}
	body, err := c.objects.Open(c.ctx, c.bucket, c.object.Key, c.offset, length)
	if err != nil {
		c.err = err
		return err
	}
	c.body, c.remaining = body, length
	return nil
}

func (c *content) closeBody() {
	if c.body != nil {
		_ = c.body.Close() // it was read only
	}
	c.body, c.remaining = nil, 0
}

func (c *content) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeBody()
	if c.err == nil {
		c.err = io.ErrClosedPipe
	}
}

func (c *content) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
