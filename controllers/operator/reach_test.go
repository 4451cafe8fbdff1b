package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

func TestReach_SeesTheEndOfALongAbsence(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset by peer")
	type request struct {
		at     time.Duration
		status int
		err    error
	}
	for name, c := range map[string]struct {
		requests []request
		back     bool
		away     bool
	}{
		"cut off for 5 s": {[]request{{0, 200, nil}, {1 * time.Second, 0, cut}, {6 * time.Second, 0, cut}, {7 * time.Second, 200, nil}}, true, false},
		"503 for 5 s":     {[]request{{0, 503, nil}, {5 * time.Second, 503, nil}, {6 * time.Second, 200, nil}}, true, false},
		"no answer for longer than the client waits": {[]request{{0, 0, context.DeadlineExceeded}, {5 * time.Second, 0, context.DeadlineExceeded}, {6 * time.Second, 403, nil}}, true, false},
		"cut off for 4 s": {[]request{{0, 0, cut}, {4 * time.Second, 0, cut}, {9 * time.Second, 200, nil}}, false, false},
		// An operator that has nothing to do sends few requests.
		"one failure, and an answer a minute later":          {[]request{{0, 0, cut}, {time.Minute, 200, nil}}, false, false},
		"two failures, and an answer between them":           {[]request{{0, 0, cut}, {1 * time.Second, 200, nil}, {time.Minute, 0, cut}, {61 * time.Second, 200, nil}}, false, false},
		"errors of a webhook":                                {[]request{{0, 500, nil}, {time.Minute, 500, nil}, {61 * time.Second, 200, nil}}, false, false},
		"requests that this process canceled":                {[]request{{0, 0, context.Canceled}, {time.Minute, 0, context.Canceled}, {61 * time.Second, 200, nil}}, false, false},
		"cut off until now":                                  {[]request{{0, 0, cut}, {time.Minute, 0, cut}}, false, true},
		"a second absence is that of the manager after this": {[]request{{0, 0, cut}, {time.Minute, 0, cut}, {61 * time.Second, 200, nil}, {62 * time.Second, 0, cut}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now time.Time
			var current request
			r := newReach(func() time.Time { return now })
			back := r.begin()
			client := r.Transport(transport(func(*http.Request) (*http.Response, error) {
				if current.err != nil {
					return nil, current.err
				}
				return &http.Response{StatusCode: current.status, Body: http.NoBody}, nil
			}))
			start := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
			for _, current = range c.requests {
				now = start.Add(current.at)
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://kubernetes.default", http.NoBody)
				must(t, err)
				response, err := client.RoundTrip(request)
				if err == nil {
					_ = response.Body.Close()
				}
			}
			closed := false
			select {
			case <-back:
				closed = true
			default:
			}
			if closed != c.back || (r.away() != nil) != c.away {
				t.Errorf("back: %t, away: %v", closed, r.away())
			}
		})
	}
}

// An API server that starts serves its own resources for seconds before custom ones.
func TestTryAPI_WaitsForRolesAndForCustomResources(t *testing.T) {
	t.Parallel()
	const ready, own, custom = "/readyz", "/api/v1/namespaces/kube-system", "/apis/mediastack.dev/v1alpha1"
	for name, c := range map[string]struct {
		status map[string]int
		ready  bool
	}{
		"all is served":                    {map[string]int{ready: 200, custom: 200}, true},
		"it starts":                        {map[string]int{ready: 500, own: 200, custom: 200}, false},
		"it does not say so":               {map[string]int{ready: 403, own: 200, custom: 200}, true},
		"it knows no roles":                {map[string]int{ready: 403, own: 403, custom: 403}, false},
		"custom resources are unavailable": {map[string]int{ready: 403, own: 200, custom: 503}, false},
		"custom resources do not answer":   {map[string]int{ready: 200, custom: 0}, false},
		"there are no custom resources":    {map[string]int{ready: 200, custom: 404}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status[r.URL.Path] == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(c.status[r.URL.Path])
			}))
			t.Cleanup(server.Close)
			base, err := url.Parse(server.URL)
			must(t, err)
			if err := tryAPI(t.Context(), server.Client(), base); (err == nil) != c.ready {
				t.Errorf("ready %t, want %t: %v", err == nil, c.ready, err)
			}
		})
	}
}
