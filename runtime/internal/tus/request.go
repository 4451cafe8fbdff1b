package tus

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// grace is how long a request whose client has left may go on: to keep what has
// arrived, or to finish an upload that is whole.
const grace = 30 * time.Second

// pressAgain is after how long a read that is interrupted is interrupted once more.
const pressAgain = 100 * time.Millisecond

// call is one request on its way through tusd, which knows neither principals nor
// faults. It is in the context that tusd hands to the store and the locks.
type call struct {
	grant    auth.Identity
	header   http.Header  // of the request
	fields   media.Fields // of an upload that is created
	metadata string       // the text they were read from
	checksum *checksum    // nil = none was sent
	ending   bool         // the upload is to be given up, not gone on with
	body     *body
	upload   *media.Resumable // once it is found or made
	err      error            // what the client is to be told
	locked   bool             // somebody else did not let go
	// reauthenticate checks the credential again; see auth.Reauthenticate.
	reauthenticate func() error

	// ctx outlives the client's departure by grace. tusd's own is not used.
	ctx     context.Context
	cancel  context.CancelFunc
	control *http.ResponseController

	mu          sync.Mutex
	interrupted error // why, once it is
	pressing    bool  // it will be interrupted again
	over        bool
}

type callKey struct{}

// callOf returns the call that tusd acts for.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{grant: auth.FromContext(r.Context()), header: r.Header, control: http.NewResponseController(w)}
	// What has no body has nothing to be interrupted: net/http reads already, to notice
	// when the client leaves.
	none := r.ContentLength == 0 || r.Method == http.MethodHead || r.Method == http.MethodDelete
	c.body = &body{from: r.Body, call: c, ended: none}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	context.AfterFunc(r.Context(), c.hurry) // net/http ends that context with the request
	return c
}

// forgetLength drops an Upload-Length that says what is known. A client whose last request
// broke off may not know that its length was heard; nor did this request, if the other one
// was still running when it read the upload. So the caller holds the lock.
func (c *call) forgetLength(known int64) {
	if known != media.UnknownLength && c.header.Get("Upload-Length") == strconv.FormatInt(known, 10) {
		c.header.Del("Upload-Length")
	}
}

// hurry leaves the call its grace and no more.
func (c *call) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		time.AfterFunc(grace, c.cancel)
	}
}

// interrupt ends the reading of the body, if that is not over: what has arrived is
// kept. A call that has all its bytes is left to finish, which whoever asks would have
// to do in its place. It may be called often and late.
func (c *call) interrupt(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.body.ended {
		return
	}
	if c.interrupted == nil {
		c.interrupted = why
		time.AfterFunc(grace, c.cancel)
	}
	_ = c.control.SetReadDeadline(time.Now())
	if c.pressing {
		return
	}
	// A read that is about to begin sets its own deadline over this one, and not everybody
	// who interrupts asks twice.
	c.pressing = true
	time.AfterFunc(pressAgain, func() {
		c.mu.Lock()
		c.pressing = false
		c.mu.Unlock()
		c.interrupt(why)
	})
}

// reason tells why the call was interrupted, nil when it was not.
func (c *call) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interrupted
}

// end releases everything. The connection may serve another request from now on.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.cancel()
}

// denied returns the fault of a credential that ended while the body came; nil if it is
// valid. Bytes received until then are kept: they are not visible, count towards the cap and
// expire with the upload. The app that created the upload continues it with a valid
// credential, and an account that was suspended for an hour need not send them again.
func (c *call) denied() error {
	if c.body != nil && c.body.denied != nil {
		return c.fail(c.body.denied)
	}
	return nil
}

// fail notes what the client is to be told, once; tusd passes errors on in a form of
// its own.
func (c *call) fail(err error) error {
	if c.err == nil {
		c.err = err
	}
	return err
}

// body is what the client sends. tusd hides the errors of its own reader from the
// store; this one does not. ended is guarded by the call's lock.
type body struct {
	from   io.ReadCloser
	call   *call
	read   int64
	ended  bool
	denied error // of the check at the end of the body, which auth's middleware makes
}

// Read returns the next bytes, until the call is interrupted.
func (b *body) Read(p []byte) (int, error) {
	if why := b.call.reason(); why != nil {
		return 0, why
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	var known *fault.Error
	if errors.As(err, &known) { // all bytes came, and the credential has ended
		b.denied, err = err, io.EOF
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		b.call.mu.Lock()
		b.ended = true
		b.call.mu.Unlock()
		return n, io.EOF
	}
	if why := b.call.reason(); why != nil {
		return n, why
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, fault.Wrap(err, fault.Unavailable, "the upload made no progress for too long: ask for its offset and go on")
	}
	return n, fault.Wrap(err, fault.Unavailable, "the body was cut short: ask for the offset and go on")
}

// Close leaves the body to net/http.
func (b *body) Close() error { return nil }
