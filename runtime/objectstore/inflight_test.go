package objectstore

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// begin sends a request whose response the server has begun.
func begin(t *testing.T, f *inFlight, url string) (*http.Response, *progress) {
	t.Helper()
	before := map[*progress]struct{}{}
	for p := range f.requests {
		before[p] = struct{}{}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	response, err := f.RoundTrip(request)
	must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	for p := range f.requests {
		if _, known := before[p]; !known {
			return response, p
		}
	}
	t.Fatal("the request is not known")
	return nil, nil
}

func TestInFlight_EndsOnlyRequestsWithoutProgress(t *testing.T) {
	t.Parallel()
	ending := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-ending
		_, _ = w.Write([]byte("rest"))
	}))
	t.Cleanup(server.Close)
	f := &inFlight{next: http.DefaultTransport, requests: map[*progress]struct{}{}}
	stalled, old := begin(t, f, server.URL)
	old.last.Store(int64(-time.Hour))
	progressing, _ := begin(t, f, server.URL)
	f.endStalled(time.Minute)
	if text, err := io.ReadAll(stalled.Body); err == nil {
		t.Errorf("the stalled request returned %q", text)
	}
	close(ending)
	if text, err := io.ReadAll(progressing.Body); err != nil || string(text) != "rest" {
		t.Errorf("the other request returned %q %v", text, err)
	}
	_, _ = stalled.Body.Close(), progressing.Body.Close()
	if len(f.requests) != 0 {
		t.Errorf("%d requests are kept", len(f.requests))
	}
}

func TestInFlight_FailsAtOnceWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	f := &inFlight{next: http.DefaultTransport, requests: map[*progress]struct{}{}}
	f.away.Store(true)
	send := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		must(t, err)
		response, err := f.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	if err := send(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("a request: %v", err)
	}
	if err := send(context.WithValue(t.Context(), probing{}, true)); err != nil {
		t.Errorf("a probe: %v", err)
	}
}
