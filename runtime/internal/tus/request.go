package tus

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/upload"
)

// gracePeriod is how long a request may continue after its client has disconnected: to store what has
// arrived, or to finish an upload that has received everything.
const gracePeriod = 30 * time.Second

// interruptRetryInterval is the time after which a read that was interrupted is interrupted
// once more.
const interruptRetryInterval = 100 * time.Millisecond

// requestState is the state of one request that tusd handles. tusd has no principals and
// faults: the context that it passes to the store and the locks holds the state.
type requestState struct {
	identity auth.Identity
	method   string
	header   http.Header
	length   int64 // Content-Length, -1 if it is unknown
	id       uuid.UUID
	creation creation // of POST
	chunk    *chunk   // of PATCH
	checksum *checksum
	body     *body
	// reauthenticate checks the credential again; see auth.Reauthenticate.
	reauthenticate func() error

	upload       *upload.Resumable // once it is found or created
	completed    bool              // by this request
	waited       bool              // another request held the lock
	lockTimedOut bool              // and did not release it in time
	err          error             // of the response

	// ctx outlives the client's connection by gracePeriod. tusd's own context is not used.
	ctx     context.Context
	cancel  context.CancelFunc
	control *http.ResponseController

	mu           sync.Mutex
	interruptErr error // cause of the interruption, nil before it
	retrying     bool  // the interruption will be repeated
	closed       bool
}

type requestStateKey struct{}

// fromContext returns the request that tusd acts for.
func fromContext(ctx context.Context) *requestState {
	s, _ := ctx.Value(requestStateKey{}).(*requestState)
	return s
}

func newRequestState(w http.ResponseWriter, r *http.Request) *requestState {
	s := &requestState{identity: auth.FromContext(r.Context()), method: r.Method, header: r.Header, length: r.ContentLength, control: http.NewResponseController(w)}
	// Without a body there is nothing to interrupt: net/http reads from the connection
	// already, to detect a disconnect.
	none := r.ContentLength == 0 || r.Method == http.MethodHead || r.Method == http.MethodDelete
	s.body = &body{from: r.Body, state: s, ended: none}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	context.AfterFunc(r.Context(), s.startGracePeriod) // net/http ends that context with the request
	return s
}

// tusdRequest returns the request for tusd: with this state, the body that can be
// interrupted, and only the upload's id in its path.
func (s *requestState) tusdRequest(r *http.Request, path string) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), requestStateKey{}, s))
	r.Body = s.body
	url := *r.URL
	url.Path, url.RawPath = path, ""
	r.URL = &url
	return r
}

// startGracePeriod ends the request's context after gracePeriod.
func (s *requestState) startGracePeriod() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		time.AfterFunc(gracePeriod, s.cancel)
	}
}

// interrupt ends the reading of the body: what has arrived is kept. A request that has all
// its bytes is left to finish: the request that interrupts it would have to do that instead.
// interrupt may be called often, from any goroutine, and after close.
func (s *requestState) interrupt(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.body.ended {
		return
	}
	if s.interruptErr == nil {
		s.interruptErr = cause
		time.AfterFunc(gracePeriod, s.cancel)
	}
	_ = s.control.SetReadDeadline(time.Now())
	if s.retrying {
		return
	}
	// A read that is about to begin sets its own deadline over this one, and not every
	// caller interrupts twice.
	s.retrying = true
	time.AfterFunc(interruptRetryInterval, func() {
		s.mu.Lock()
		s.retrying = false
		s.mu.Unlock()
		s.interrupt(cause)
	})
}

// interruption returns why the request was interrupted, nil if it was not.
func (s *requestState) interruption() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.interruptErr
}

// close releases everything. The connection may serve another request from now on.
func (s *requestState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cancel()
}

// fail records the first error of the request, which responseInterceptor sends. It returns
// the error for tusd, whose own response to it is discarded.
func (s *requestState) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	if errors.Is(err, errUploadNotFound) {
		return handler.ErrNotFound
	}
	return err
}

// denied returns the fault of a credential that was revoked while the body was received; nil if it is
// valid. Bytes received until then are kept: they are not visible, count towards the cap and
// expire with the upload. The app that created the upload continues it with a valid
// credential, and an account that was suspended for an hour need not send them again.
func (s *requestState) denied() error {
	if s.body != nil && s.body.denied != nil {
		return s.fail(s.body.denied)
	}
	return nil
}

// bodyEnded reports whether the body was read to its end, or there is none.
func (s *requestState) bodyEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body == nil || s.body.ended
}

// canAccess reports whether the caller may use an upload of its app: a capability only those that it created, which no
// other signature reaches, and a signature that is bound to a group only the uploads of that group.
func (s *requestState) canAccess(state upload.ResumableState) bool {
	if s.identity.Signed && (s.identity.Capability != nil || state.Capability != nil) {
		return s.identity.Capability.Is(state.Capability)
	}
	return s.identity.Group == "" || s.identity.Group == state.Fields.Group
}

// body is the body of the request. tusd hides the errors of its own reader from the store;
// this one does not. ended is guarded by the state's lock.
type body struct {
	from   io.ReadCloser
	state  *requestState
	ended  bool
	denied error // of the check at the end of the body, which auth's middleware makes
}

// Read implements io.Reader. It fails once the request is interrupted.
func (b *body) Read(p []byte) (int, error) {
	if cause := b.state.interruption(); cause != nil {
		return 0, cause
	}
	n, err := b.from.Read(p)
	var denied *fault.Error
	if errors.As(err, &denied) { // all bytes have arrived, and the credential has ended
		b.denied, err = err, io.EOF
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		b.state.mu.Lock()
		b.ended = true
		b.state.mu.Unlock()
		return n, io.EOF
	}
	if cause := b.state.interruption(); cause != nil {
		return n, cause
	}
	why := "the body was cut short; fetch the offset and continue"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		why = "the upload made no progress for too long; fetch the offset and continue"
	}
	return n, &fault.Error{Kind: fault.Unavailable, Reason: fault.IncompleteBody, Public: why, Cause: err}
}

// Close leaves the body to net/http.
func (b *body) Close() error { return nil }
