package delivery

import (
	"context"
	"errors"
	"io"
	"sync"

	"mediastack.dev/runtime/media"
)

// window is how much is asked of the object store at a time where it is not known
// how much the client will take: in answers of several ranges.
const window = 1 << 20

// content is an object as http.ServeContent wants it. It asks the object store only
// for what is read. It is safe for concurrent use, because answers of several ranges
// are read in a goroutine of their own.
type content struct {
	ctx     context.Context // io.Reader has no other way to carry it
	objects Objects
	bucket  string
	object  media.Object

	mu     sync.Mutex
	offset int64 // of the next Read
	body   io.ReadCloser
	left   int64 // that body still gives
	err    error // the first failure of the object store
}

var errSeek = errors.New("seek outside of the file")

// Seek moves without reading; what is open elsewhere is closed by the next Read.
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
		c.drop()
		c.offset = offset
	}
	return offset, nil
}

// Read returns the next bytes, opening the object where it must.
func (c *content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if c.offset >= c.object.Bytes {
		return 0, io.EOF
	}
	if c.body == nil || c.left == 0 {
		if err := c.open(min(window, c.object.Bytes-c.offset)); err != nil {
			return 0, err
		}
	}
	n, err := c.body.Read(p[:min(int64(len(p)), c.left)])
	c.offset += int64(n)
	c.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && c.left > 0:
		c.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, io.EOF):
		c.err = err
	}
	return n, c.err
}

// prime opens the object where the body begins. length is how much the body takes of
// it from there, or negative where that is not known.
func (c *content) prime(length int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if length < 0 {
		length = min(window, c.object.Bytes-c.offset)
	}
	if length == 0 {
		return nil
	}
	return c.open(length)
}

// refuse fails every Read from now on: http.ServeContent reads although its answer
// could not begin, and that must not reach the object store.
func (c *content) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// open asks for length bytes from the offset on.
func (c *content) open(length int64) error {
	c.drop()
	body, err := c.objects.Open(c.ctx, c.bucket, c.object.Key, c.offset, length)
	if err != nil {
		c.err = err
		return err
	}
	c.body, c.left = body, length
	return nil
}

func (c *content) drop() {
	if c.body != nil {
		_ = c.body.Close() // it was only read
	}
	c.body, c.left = nil, 0
}

func (c *content) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	if c.err == nil {
		c.err = io.ErrClosedPipe
	}
}

func (c *content) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
