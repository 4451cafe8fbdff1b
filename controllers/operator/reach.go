package operator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// longAbsence is the time without an answer of the API server after which the manager starts again when
// it is back. An informer waits longer after each failure, up to a minute, and nothing can tell it that
// the API server is back; after 5 s of failures it waits for 6.4 s at most.
const longAbsence = 5 * time.Second

// reach sees whether the API server answers, by the requests of this process. It is safe for concurrent
// use.
type reach struct {
	now func() time.Time

	mu          sync.Mutex
	first, last time.Time // of the failures since the last answer; zero = the last request was answered
	cause       error
	back        chan struct{} // closed by the first answer after a long absence; nil = it was
}

func newReach(now func() time.Time) *reach { return &reach{now: now, back: make(chan struct{})} }

// begin forgets what was seen, and returns the channel that is closed by the first answer after a long
// absence.
func (r *reach) begin() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.last, r.cause, r.back = time.Time{}, time.Time{}, nil, make(chan struct{})
	return r.back
}

// away returns why the last request was not answered; nil if it was.
func (r *reach) away() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

// Transport watches the requests that pass through it.
func (r *reach) Transport(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		switch {
		case errors.Is(err, context.Canceled): // by this process
		case err != nil:
			r.failed(err)
		case isGatewayError(response.StatusCode):
			r.failed(errors.New("the API server answers " + response.Status))
		default:
			r.answered()
		}
		return response, err
	})
}

// isGatewayError reports whether a status says that the API server is away: a load balancer answers, or
// an API server that starts or ends. Status 500 can be that of a webhook.
func isGatewayError(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

func (r *reach) failed(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.cause = r.now(), cause
	if r.first.IsZero() {
		r.first = r.last
	}
}

func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	// One failure and a long pause are no absence.
	if r.back != nil && r.last.Sub(r.first) >= longAbsence {
		close(r.back)
		r.back = nil
	}
	r.first, r.last, r.cause = time.Time{}, time.Time{}, nil
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
