package mcpclients_test

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
)

// balancer is the one address of the service. It leads every request to another replica
// than the one before it, and past one that takes no connections.
type balancer struct {
	server *httptest.Server

	mu      sync.Mutex
	targets []string
	next    int
	took    map[string]int
	before  func(number int, r *http.Request) // what happens before a request is led on; nil = nothing
	count   int
	flying  map[string]int // requests that are not answered to the end
	landed  *sync.Cond

	// witness is told of every exchange; nil = nobody is.
	witness *witness
}

// servedBy is the header that tells which replica answered.
const servedBy = "X-Served-By"

func newBalancer(t *testing.T, w *witness) *balancer {
	t.Helper()
	b := &balancer{took: map[string]int{}, flying: map[string]int{}, witness: w}
	b.landed = sync.NewCond(&b.mu)
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

// begin counts anew, and plans what happens before each request. They are numbered from 1.
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
	b.flying[b.targets[at]]++
	return append(append([]string{}, b.targets[at:]...), b.targets[:at]...)
}

// quiet waits, for what happens before a request, until no other is on its way to a
// target: clients send some side by side, and one that is cut can't be sent again.
func (b *balancer) quiet(target string) {
	for b.flying[target] > 0 {
		b.landed.Wait()
	}
}

// land notes that a request to a target has ended, or takes off to the next one.
func (b *balancer) land(target, next string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flying[target]--
	if next != "" {
		b.flying[next]++
	}
	b.landed.Broadcast()
}

// landing is the body of an answer.
type landing struct {
	io.ReadCloser
	land func()
}

// Close ends the request.
func (l landing) Close() error {
	defer l.land()
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

// whole takes the body in before anything is led on. While an answer begins, net/http
// closes the body that the proxy may still look at, and the proxy then cuts the answer.
func whole(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// RoundTrip leads a request to a replica.
func (r roundRobin) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := whole(request)
	if err != nil {
		return nil, err
	}
	r.balancer.witness.request(request, body)
	targets := r.balancer.order(request)
	for n, target := range targets {
		conn, err := new(net.Dialer).DialContext(request.Context(), "tcp", target)
		// Nothing of the request is sent to a replica that is not there.
		if errors.Is(err, syscall.ECONNREFUSED) && n+1 < len(targets) {
			r.balancer.land(target, targets[n+1])
			continue
		}
		var response *http.Response
		if err == nil {
			_ = conn.Close()
			request.URL.Host = target
			response, err = r.next.RoundTrip(request)
		}
		if err != nil {
			r.balancer.land(target, "")
			return nil, err
		}
		r.balancer.mu.Lock()
		r.balancer.took[target]++
		r.balancer.mu.Unlock()
		response.Header.Set(servedBy, target)
		response.Body = landing{response.Body, sync.OnceFunc(func() { r.balancer.land(target, "") })}
		if err := r.balancer.witness.response(response); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
		return response, nil
	}
	return nil, errors.New("there is no replica")
}
