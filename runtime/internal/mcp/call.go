package mcp

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// call is one HTTP request on its way through the SDK: the file that was in it, and
// what went wrong in its tools. The SDK runs tools in goroutines of its own.
type call struct {
	media *media.Service
	grant auth.Identity
	sends bool // the caller may use upload_media
	// messages are those of the body, and batch is set when they came as a list.
	messages []message
	batch    bool
	// stop ends a read of the request's body.
	stop func()

	mu    sync.Mutex
	slow  error // why the body is read no further
	files []*file
	errs  []error
	over  bool
}

// file is a fileBase64 that was in the request.
type file struct {
	upload *media.Upload // nil when err is set, and once somebody has taken it
	err    error
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callOf returns the request that a tool acts for.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func newCall(service *media.Service, grant auth.Identity, sends bool) *call {
	return &call{media: service, grant: grant, sends: sends}
}

// word stands for a file in what the SDK reads.
const word = "file "

// take receives a file while it arrives. Package media holds it in memory that it
// bounds, and stores nothing before the tool commits. One that comes so slowly that
// others wait for its place ends the request: a tool's answer would have to wait for
// the rest of the body.
func (c *call) take(ctx context.Context, from *text, needed bool) (string, error) {
	one := &file{}
	name := word + strconv.Itoa(len(c.files))
	c.files = append(c.files, one)
	switch {
	case !c.sends || !needed:
		one.err = fault.New(fault.Conflict, "no file is taken here")
	case len(c.files) > 1: // each would hold a place that the other waits for
		one.err = fault.New(fault.Invalid, "send one file in a request")
	default:
		one.upload, one.err = c.receive(ctx, &decoder{from: from})
	}
	return name, c.tooSlow()
}

// interrupt ends the reading of a file. It may be called often.
func (c *call) interrupt(why error) {
	c.mu.Lock()
	c.slow = why
	c.mu.Unlock()
	c.stop()
}

func (c *call) tooSlow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}

func (c *call) receive(ctx context.Context, from io.Reader) (*media.Upload, error) {
	upload, err := c.media.Begin(ctx, c.grant.Principal, 0)
	if err != nil {
		return nil, err
	}
	upload.OnSlow(c.interrupt)
	if err := upload.Receive(ctx, from, ""); err != nil {
		upload.Close(ctx)
		return nil, err
	}
	return upload, nil
}

// file returns the file that a word stands for; whoever gets it closes it.
func (c *call) file(named string) (*media.Upload, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, one := range c.files {
		if named != word+strconv.Itoa(i) {
			continue
		}
		upload, err := one.upload, one.err
		if upload == nil && err == nil || c.over {
			err = errors.New("a file was asked for twice, or too late")
			return nil, err
		}
		one.upload = nil
		return upload, err
	}
	return nil, errors.New("a file was not taken out of the body")
}

// note keeps a failure for the log.
func (c *call) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// end releases what no tool has taken, and returns all that went wrong.
func (c *call) end(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, one := range c.files {
		if one.upload != nil {
			one.upload.Close(ctx)
		}
	}
	return errors.Join(c.errs...)
}
