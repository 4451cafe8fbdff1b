package mcp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv/webuser"
)

// balancer is the one address of the service. It sends every request to another replica than the one
// before it, and skips one that accepts no connections.
type balancer struct {
	server *httptest.Server

	mu       sync.Mutex
	targets  []string
	next     int
	took     map[string]int
	before   func(number int, r *http.Request) // runs before a request is forwarded; nil = nothing
	count    int
	inFlight map[string]int // requests that are not answered to the end
	finished *sync.Cond

	// scanner is called for every exchange; nil = none.
	scanner *secretScanner
}

func newBalancer(t *testing.T, w *secretScanner) *balancer {
	t.Helper()
	b := &balancer{took: map[string]int{}, inFlight: map[string]int{}, scanner: w}
	b.finished = sync.NewCond(&b.mu)
	// A connection that is kept would belong to a replica that may be gone.
	transport := &http.Transport{DisableKeepAlives: true}
	b.server = httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Transport: roundRobin{b, transport},
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" }})
	t.Cleanup(b.server.Close)
	return b
}

// add adds a replica.
func (b *balancer) add(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, target)
}

// begin resets the counters, and sets what runs before each request. They are numbered from 1.
func (b *balancer) begin(before func(number int, r *http.Request)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count, b.took, b.before = 0, map[string]int{}, before
}

// order returns the targets in the order in which they are tried.
func (b *balancer) order(r *http.Request) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	if b.before != nil {
		b.before(b.count, r)
	}
	at := b.next % len(b.targets)
	b.next++
	b.inFlight[b.targets[at]]++
	return append(append([]string{}, b.targets[at:]...), b.targets[:at]...)
}

// waitIdle waits until no request to a target is in flight. b.mu is held. Clients send some requests
// concurrently, and one that is cut can't be sent again.
func (b *balancer) waitIdle(target string) {
	for b.inFlight[target] > 0 {
		b.finished.Wait()
	}
}

// finish records that a request to a target has ended, or goes to the next one.
func (b *balancer) finish(target, next string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight[target]--
	if next != "" {
		b.inFlight[next]++
	}
	b.finished.Broadcast()
}

// finishingBody is the body of an answer.
type finishingBody struct {
	io.ReadCloser
	finish func()
}

// Close ends the request.
func (l finishingBody) Close() error {
	defer l.finish()
	return l.ReadCloser.Close()
}

func (b *balancer) served(target string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.took[target]
}

func (b *balancer) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

type roundRobin struct {
	balancer *balancer
	next     http.RoundTripper
}

// whole reads the body before the request is forwarded. While an answer begins, net/http
// closes the body that the proxy may still look at, and the proxy then cuts the answer.
func whole(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// RoundTrip forwards a request to a replica.
func (r roundRobin) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := whole(request)
	if err != nil {
		return nil, err
	}
	r.balancer.scanner.request(request, body)
	targets := r.balancer.order(request)
	for n, target := range targets {
		conn, err := new(net.Dialer).DialContext(request.Context(), "tcp", target)
		// Nothing of the request is sent to a replica that is not there.
		if errors.Is(err, syscall.ECONNREFUSED) && n+1 < len(targets) {
			r.balancer.finish(target, targets[n+1])
			continue
		}
		var response *http.Response
		if err == nil {
			_ = conn.Close()
			request.URL.Host = target
			response, err = r.next.RoundTrip(request)
		}
		if err != nil {
			r.balancer.finish(target, "")
			return nil, err
		}
		r.balancer.mu.Lock()
		r.balancer.took[target]++
		r.balancer.mu.Unlock()
		response.Header.Set(webuser.ServedBy, target)
		response.Body = finishingBody{response.Body, sync.OnceFunc(func() { r.balancer.finish(target, "") })}
		if err := r.balancer.scanner.response(response); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
		return response, nil
	}
	return nil, errors.New("there is no replica")
}
