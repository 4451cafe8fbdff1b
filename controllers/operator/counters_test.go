package operator_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"mediastack.dev/controllers/operator"
	"mediastack.dev/runtime/objectstore"
)

// requestCounter counts the requests that the operator sends to the API server, without the
// periodic reads of the installation.
type requestCounter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *requestCounter) around(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Get("watch") == "" && !readsInstallation(request) {
			c.add(request.Method + " " + kindOf(request.URL.Path))
		}
		return next.RoundTrip(request)
	})
}

func (c *requestCounter) add(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[request]++
}

func readsInstallation(request *http.Request) bool {
	path := request.URL.Path
	return request.Method == http.MethodGet && (strings.HasSuffix(path, "/namespaces/kube-system") || strings.HasSuffix(path, "/configmaps/mediastack-installation"))
}

// snapshot returns the counts so far.
func (c *requestCounter) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// writes returns the number of requests so far that changed something, or tried to.
func (c *requestCounter) writes() int {
	total := 0
	for request, n := range c.snapshot() {
		if !strings.HasPrefix(request, http.MethodGet+" ") {
			total += n
		}
	}
	return total
}

// kindOf is the part of a path that names no object.
func kindOf(path string) string {
	parts := strings.Split(path, "/")
	at := slices.Index(parts, "namespaces")
	switch {
	case at < 0:
		return path
	case at+2 >= len(parts):
		return "namespaces"
	case len(parts) == at+5:
		return parts[at+2] + "/" + parts[at+4]
	}
	return parts[at+2]
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// countingBuckets counts the calls to the object store.
type countingBuckets struct {
	operator.Buckets
	mu    sync.Mutex
	calls map[string]int
}

// use replaces the store, as a changed setting does.
func (c *countingBuckets) use(next operator.Buckets) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Buckets = next
}

// Claim counts and passes on.
func (c *countingBuckets) Claim(ctx context.Context, request objectstore.ClaimRequest) (objectstore.ClaimResult, error) {
	c.mu.Lock()
	c.calls[request.Bucket]++
	next := c.Buckets
	c.mu.Unlock()
	return next.Claim(ctx, request)
}

// Ping passes on.
func (c *countingBuckets) Ping(ctx context.Context) error {
	c.mu.Lock()
	next := c.Buckets
	c.mu.Unlock()
	return next.Ping(ctx)
}

// of returns how often a bucket was claimed.
func (c *countingBuckets) of(bucket string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[bucket]
}

// snapshot returns the counts so far.
func (c *countingBuckets) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}
