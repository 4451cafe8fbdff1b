package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/minrate"
)

// contextWithRoute provides chi with a route context that outlives it, so that the pattern
// can be read after the request.
func contextWithRoute(ctx context.Context, route *chi.Context) context.Context {
	return context.WithValue(ctx, chi.RouteCtxKey, route)
}

// guard returns a body and an answer for the request whose deadlines move on with every
// step: an upload of hours is fine, a client that stands still, or creeps, is not. The
// body is nil when the request has none.
func guard(cfg Config, w http.ResponseWriter, r *http.Request) (*requestBody, *responseWriter) {
	control := http.NewResponseController(w)
	writer := &responseWriter{ResponseWriter: w, control: control, stall: cfg.StallTimeout, budget: minrate.New(cfg.MinRate, cfg.StallTimeout)}
	// The connection may still have the deadline of the answer before this one, which
	// "100 Continue" would run into.
	writer.extend()
	closeIfDoubtful(w.Header(), r)
	if r.Body == nil || r.Body == http.NoBody {
		return nil, writer
	}
	body := &requestBody{ReadCloser: r.Body, control: control, budget: minrate.New(cfg.MinRate, cfg.StallTimeout), length: r.ContentLength,
		expects: r.Header.Get("Expect") != "", anonymous: anonymousLimit{timeout: cfg.AnonymousTimeout, info: httpapi.FromContext(r.Context())}, connection: connectionOf(r.Context()), discardLimit: cfg.DiscardLimit, discardTimeout: cfg.DiscardTimeout}
	writer.body = body
	return body, writer
}

// anonymousLimit bounds how long the whole body of a request without a credential may
// take: those of logins and registrations, which are short.
type anonymousLimit struct {
	timeout time.Duration // 0 = no limit
	info    *httpapi.RequestInfo
	ends    time.Time // zero = nothing was read yet
}

// end returns when the body must have come, false for a request with a credential.
func (l *anonymousLimit) end(now time.Time) (time.Time, bool) {
	if l.timeout == 0 || l.info.AccountID != uuid.Nil {
		return time.Time{}, false
	}
	if l.ends.IsZero() {
		l.ends = now.Add(l.timeout)
	}
	return l.ends, true
}

// requestBody is a body that is read at the client's pace. It belongs to the request's
// goroutine.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
	budget  minrate.Budget
	length  int64 // -1 = unknown
	expects bool  // the client waits for 100 Continue
	read    int64
	ended   bool // all of it was read

	anonymous      anonymousLimit
	connection     *connection // nil outside of a Server
	discardLimit   int64
	discardTimeout time.Duration
}

// Read reads the next bytes. The deadline is set before each read and not after the
// last one: a handler that is busy elsewhere is not the client's fault.
func (b *requestBody) Read(p []byte) (int, error) {
	begun := time.Now()
	deadline := begun.Add(b.budget.Remaining())
	if end, limited := b.anonymous.end(begun); limited {
		if end.Before(deadline) {
			deadline = end
		}
		// Nobody is known who would answer for the wait: whoever comes next goes first.
		b.connection.makeWay(true)
		defer b.connection.makeWay(false)
	}
	_ = b.control.SetReadDeadline(deadline) // a transport without deadlines has none
	n, err := b.ReadCloser.Read(p)
	b.budget.Record(int64(n), time.Since(begun))
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		b.ended = true
		// From here on net/http itself reads, to notice when the client leaves. A
		// deadline that passed meanwhile would look like that.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Close does nothing: net/http's own Close would wait for the rest of the body.
func (b *requestBody) Close() error { return nil }

// count is how much was read; a request without a body has none.
func (b *requestBody) count() int64 {
	if b == nil {
		return 0
	}
	return b.read
}

// responseWriter is an answer that is written at the client's pace. It knows what went out.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	budget  minrate.Budget
	body    *requestBody // nil = the request has none
	status  int
	written int64
}

// WriteHeader sends the header once.
func (w *responseWriter) WriteHeader(status int) {
	if status >= http.StatusOK && w.status == 0 {
		w.status = status
		if w.body != nil {
			w.body.leave(w.Header(), status)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the next bytes.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	begun := time.Now()
	_ = w.control.SetWriteDeadline(begun.Add(w.budget.Remaining())) // a transport without deadlines has none
	n, err := w.ResponseWriter.Write(p)
	w.budget.Record(int64(n), time.Since(begun))
	w.written += int64(n)
	return n, err
}

// Flush sends what is buffered.
func (w *responseWriter) Flush() {
	w.extend()
	_ = w.control.Flush() // a transport that can't has nothing buffered
}

// finish leaves net/http time for the rest of the answer.
func (w *responseWriter) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK) // as net/http does
	}
	w.extend()
}

func (w *responseWriter) extend() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) // a transport without deadlines has none
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
