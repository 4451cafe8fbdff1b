package mcp

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/upload"
)

// requestState is the state of one HTTP request, passed through the SDK by context: the file
// that its body contained, and the errors of its tools. The SDK runs tools in goroutines of its
// own.
type requestState struct {
	uploads   *upload.Service
	identity  auth.Identity
	canUpload bool // the caller may use upload_media
	// messages are those of the body; batch is set if it is an array of them.
	messages []message
	batch    bool
	// left is the context of the request, which ends when the client leaves.
	left context.Context
	// stop aborts a read of the request's body.
	stop func()

	mu     sync.Mutex
	slow   error // set if the file arrives below the minimum rate while others wait
	files  []*file
	errs   []error
	closed bool
}

// file is the content of a fileBase64 argument of the request.
type file struct {
	upload *upload.Single // nil if err is set, or once a tool has claimed it
	err    error
	// unpadded is set if the base64 has no padding where it needs one: see expectedFile.
	unpadded bool
}

type requestStateKey struct{}

// newContext returns a context that carries the state of a request.
func newContext(ctx context.Context, c *requestState) context.Context {
	return context.WithValue(ctx, requestStateKey{}, c)
}

// stateFromContext returns the state of the request that a tool acts for.
func stateFromContext(ctx context.Context) *requestState {
	c, _ := ctx.Value(requestStateKey{}).(*requestState)
	return c
}

func newRequestState(uploads *upload.Service, identity auth.Identity, canUpload bool) *requestState {
	return &requestState{uploads: uploads, identity: identity, canUpload: canUpload}
}

// placeholderPrefix begins the string that replaces a file in the JSON which the SDK reads.
const placeholderPrefix = "file "

// receiveFile receives a file while it arrives and returns its placeholder. Package upload bounds
// the memory that it takes, and stores nothing before the tool commits. A file below the minimum
// transfer rate while other uploads wait ends the request: the answer of a tool would have to
// wait for the rest of the body.
func (c *requestState) receiveFile(ctx context.Context, from *stringReader, isUpload bool) (string, error) {
	received := &file{}
	name := placeholderPrefix + strconv.Itoa(len(c.files))
	c.files = append(c.files, received)
	switch {
	case !c.canUpload || !isUpload:
		received.err = fault.New(fault.Conflict, "unexpected file argument")
	case len(c.files) > 1: // each would hold a slot that the other waits for
		received.err = fault.New(fault.Invalid, "send one file in a request")
	default:
		text := &decoder{from: from}
		received.upload, received.err = c.beginUpload(ctx, text)
		received.unpadded = text.unpadded
	}
	return name, c.tooSlow()
}

// interrupt aborts reading the body. It may be called often.
func (c *requestState) interrupt(cause error) {
	c.mu.Lock()
	c.slow = cause
	c.mu.Unlock()
	c.stop()
}

func (c *requestState) tooSlow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}

func (c *requestState) beginUpload(ctx context.Context, from io.Reader) (*upload.Single, error) {
	single, err := c.uploads.Begin(ctx, c.identity.Principal, 0)
	if err != nil {
		return nil, err
	}
	single.OnSlow(c.interrupt)
	if err := single.Receive(ctx, from, ""); err != nil {
		single.Close(ctx)
		return nil, err
	}
	return single, nil
}

// file returns the upload that a placeholder stands for, and whether its base64 lacks padding. The caller closes it.
func (c *requestState) file(named string) (single *upload.Single, unpadded bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, received := range c.files {
		if named != placeholderPrefix+strconv.Itoa(i) {
			continue
		}
		single, err := received.upload, received.err
		if single == nil && err == nil || c.closed {
			err = errors.New("the file was claimed before, or after the end of its request")
			return nil, false, err
		}
		received.upload = nil
		return single, received.unpadded, err
	}
	return nil, false, errors.New("the file was not extracted from the body")
}

// addError records an error for the log.
func (c *requestState) addError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// close releases the files that no tool has claimed, and returns the recorded errors.
func (c *requestState) close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, unclaimed := range c.files {
		if unclaimed.upload != nil {
			unclaimed.upload.Close(ctx)
		}
	}
	return errors.Join(c.errs...)
}
