package objectstore

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errHangs is the cause of the end of a request that the store stopped to serve.
var errHangs = errors.New("the object store hangs: no byte was sent or received")

// errAway is the error of a request to a store that is away.
var errAway = errors.New("the object store is away")

// inFlight knows the requests that are in progress. A store that begins to hang keeps its
// connections: without this, a request would wait for the timeout of the transport, and then again
// for each of its retries. Only Readiness sets away, so that nothing ends in a program without it.
type inFlight struct {
	next http.RoundTripper
	away atomic.Bool

	mu       sync.Mutex
	requests map[*progress]struct{}
}

// progress is one request.
type progress struct {
	cancel context.CancelCauseFunc
	last   atomic.Int64 // when a byte was sent or received, in nanoseconds since started
}

// started is the origin of the times of progress.
var started = time.Now()

func (p *progress) made() { p.last.Store(int64(time.Since(started))) }

// probing is the key of a context whose requests are sent also while the store is away.
type probing struct{}

// RoundTrip implements http.RoundTripper. A request of a store that is away fails at once: it is the
// retry of one that was ended.
func (f *inFlight) RoundTrip(request *http.Request) (*http.Response, error) {
	if f.away.Load() && request.Context().Value(probing{}) == nil {
		return nil, errAway
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	p := &progress{cancel: cancel}
	p.made()
	f.mu.Lock()
	f.requests[p] = struct{}{}
	f.mu.Unlock()
	response, err := f.next.RoundTrip(p.observed(request.WithContext(ctx)))
	if err != nil {
		f.remove(p)
		if cause := context.Cause(ctx); errors.Is(cause, errHangs) {
			err = cause
		}
		return response, err
	}
	p.made()
	response.Body = &progressBody{ReadCloser: response.Body, progress: p, end: func() { f.remove(p) }}
	return response, nil
}

// observed returns a request whose body reports progress.
func (p *progress) observed(request *http.Request) *http.Request {
	if request.Body == nil || request.Body == http.NoBody {
		return request
	}
	request.Body = &progressBody{ReadCloser: request.Body, progress: p}
	if again := request.GetBody; again != nil {
		request.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			return &progressBody{ReadCloser: body, progress: p}, err
		}
	}
	return request
}

func (f *inFlight) remove(p *progress) {
	f.mu.Lock()
	delete(f.requests, p)
	f.mu.Unlock()
	p.cancel(nil)
}

// endStalled ends the requests without progress for this time.
func (f *inFlight) endStalled(limit time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.requests {
		if time.Since(started)-time.Duration(p.last.Load()) >= limit {
			p.cancel(errHangs)
		}
	}
}

// progressBody reports the progress of a body.
type progressBody struct {
	io.ReadCloser
	progress *progress
	end      func() // at its end; nil = nothing
}

// Read implements io.Reader.
func (b *progressBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if n > 0 {
		b.progress.made()
	}
	return n, err
}

// Close implements io.Closer.
func (b *progressBody) Close() error {
	err := b.ReadCloser.Close()
	if b.end != nil {
		b.end()
	}
	return err
}
