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
	"mediastack.dev/runtime/splice"
)

// contextWithRoute provides chi with a route context that outlives it, so that the pattern
// can be read after the request.
func contextWithRoute(ctx context.Context, route *chi.Context) context.Context {
	return context.WithValue(ctx, chi.RouteCtxKey, route)
}

// withDeadlines returns a body and a response writer whose deadlines are extended with
// progress: an upload may take hours, but not stall or stay below the minimum rate. The body
// is nil if the request has none.
// counted has the bounds of bodies; nil = they are not counted.
func withDeadlines(cfg Config, counted *bodies, w http.ResponseWriter, r *http.Request) (*requestBody, *responseWriter) {
	control := http.NewResponseController(w)
	writer := &responseWriter{ResponseWriter: w, control: control, stall: cfg.StallTimeout, budget: minrate.New(cfg.MinRate, cfg.StallTimeout)}
	// The connection may still have the write deadline of the previous response, which would
	// apply to "100 Continue".
	writer.extend()
	closeIfAmbiguous(w.Header(), r)
	if r.Body == nil || r.Body == http.NoBody {
		return nil, writer
	}
	info := httpapi.FromContext(r.Context())
	body := &requestBody{ReadCloser: r.Body, control: control, budget: minrate.New(cfg.MinRate, cfg.StallTimeout), length: r.ContentLength,
		expects: r.Header.Get("Expect") != "", anonymous: anonymousLimit{timeout: cfg.AnonymousTimeout, info: info}, document: documentTime{timeout: cfg.JSONBodyTimeout},
		connection: connectionOf(r.Context()), discardLimit: cfg.DiscardLimit, discardTimeout: cfg.DiscardTimeout}
	if counted != nil {
		body.arrival = &arrival{of: counted, control: control, connection: body.connection}
	}
	info.Body, writer.body = body, body
	return body, writer
}

// anonymousLimit bounds how long the whole body of a request without a credential may take.
// Bodies of logins and registrations are short.
type anonymousLimit struct {
	timeout time.Duration // 0 = no limit
	info    *httpapi.RequestInfo
	ends    time.Time // zero = before the first read
}

// end returns the deadline of the body, false for a request with a credential.
func (l *anonymousLimit) end(now time.Time) (time.Time, bool) {
	if l.timeout == 0 || l.info.AccountID != uuid.Nil {
		return time.Time{}, false
	}
	if l.ends.IsZero() {
		l.ends = now.Add(l.timeout)
	}
	return l.ends, true
}

// requestBody is a body whose reads have deadlines. It is used by the goroutine of the
// request only.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
	budget  minrate.Budget
	length  int64 // -1 = unknown
	expects bool  // the client waits for 100 Continue
	read    int64
	ended   bool // all of it was read

	anonymous      anonymousLimit
	document       documentTime
	arrival        *arrival    // nil = it is not counted
	connection     *connection // nil outside of a Server
	discardLimit   int64
	discardTimeout time.Duration
}

// Read reads the next bytes. It sets the deadline before each read, so that the time which a
// handler spends elsewhere does not count.
func (b *requestBody) Read(p []byte) (int, error) {
	start := time.Now()
	deadline := start.Add(b.budget.Remaining())
	if end, limited := b.anonymous.end(start); limited {
		if end.Before(deadline) {
			deadline = end
		}
		// The connection may be evicted for a new one: the client is not authenticated.
		b.connection.setEvictable(true)
		defer b.connection.setEvictable(false)
	}
	if end, limited := b.document.end(start); limited && end.Before(deadline) {
		deadline = end
	}
	_ = b.control.SetReadDeadline(deadline) // a transport without deadlines has none
	if err := b.arrival.wait(start, b.budget.Spent()); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	err = b.arrival.waited(err)
	waited := time.Since(start)
	b.budget.Record(int64(n), waited)
	b.document.record(n, waited)
	b.read += int64(n)
	if errors.Is(err, io.EOF) || b.read == b.length {
		b.arrival.release() // not at the end of the request, which may still store a file
	}
	if errors.Is(err, io.EOF) {
		b.ended = true
		// From here on net/http reads, to detect a disconnect. An expired deadline would look
		// like one.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Admit counts the body towards the share of an account.
func (b *requestBody) Admit(accountID uuid.UUID) error {
	if b.arrival == nil || b.ended {
		return nil
	}
	return b.arrival.admit(accountID)
}

// ReadDocument sets whether what is read next is a document.
func (b *requestBody) ReadDocument(document bool) { b.document.on = document }

// Close does nothing: that of net/http would wait for the rest of the body.
func (b *requestBody) Close() error { return nil }

// count returns the number of bytes that were read, 0 for a nil body.
func (b *requestBody) count() int64 {
	if b == nil {
		return 0
	}
	return b.read
}

// responseWriter is a response whose writes have deadlines. It records what was sent.
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
			w.body.prepareResponse(w.Header(), status)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the next bytes.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	start := time.Now()
	_ = w.control.SetWriteDeadline(start.Add(w.budget.Remaining())) // a transport without deadlines has none
	n, err := w.ResponseWriter.Write(p)
	w.budget.Record(int64(n), time.Since(start))
	w.written += int64(n)
	return n, err
}

// WritePipe sends what a pipe holds.
func (w *responseWriter) WritePipe(p *splice.Pipe) (int64, error) {
	to, ok := w.ResponseWriter.(io.ReaderFrom) // net/http's passes a pipe to the connection
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, p)
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	start := time.Now()
	_ = w.control.SetWriteDeadline(start.Add(w.budget.Remaining())) // a transport without deadlines has none
	n, err := to.ReadFrom(p)
	w.budget.Record(n, time.Since(start))
	w.written += n
	return n, err
}

// Flush sends what is buffered.
func (w *responseWriter) Flush() {
	w.extend()
	_ = w.control.Flush() // a transport without Flush has no buffer
}

// finish extends the deadline for what net/http still writes.
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
