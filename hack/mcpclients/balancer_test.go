package mcpclients_test

import (
	"errors"
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
	before  map[int]func() // what happens before the request of that number
	count   int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	b := &balancer{took: map[string]int{}, before: map[int]func(){}}
	// A connection that is kept would belong to a replica that may be gone.
	transport := &http.Transport{DisableKeepAlives: true}
	b.server = httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Transport: roundRobin{b, transport},
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" }})
	t.Cleanup(b.server.Close)
	return b
}

// begin counts anew, and plans what happens before the request of that number (from 1).
func (b *balancer) begin(number int, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count, b.took, b.before = 0, map[string]int{}, map[int]func(){number: do}
}

// order gives the targets in the order in which they are tried.
func (b *balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	if do := b.before[b.count]; do != nil {
		do()
	}
	at := b.next % len(b.targets)
	b.next++
	return append(append([]string{}, b.targets[at:]...), b.targets[:at]...)
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

func (r roundRobin) RoundTrip(request *http.Request) (*http.Response, error) {
	var err error
	for _, target := range r.balancer.order() {
		var conn net.Conn
		// Nothing of the request is sent to a replica that is not there.
		if conn, err = new(net.Dialer).DialContext(request.Context(), "tcp", target); errors.Is(err, syscall.ECONNREFUSED) {
			continue
		} else if err != nil {
			return nil, err
		}
		_ = conn.Close()
		request.URL.Host = target
		var response *http.Response
		if response, err = r.next.RoundTrip(request); err == nil {
			r.balancer.mu.Lock()
			r.balancer.took[target]++
			r.balancer.mu.Unlock()
		}
		return response, err
	}
	return nil, err
}
