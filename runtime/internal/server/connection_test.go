package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/ratelimit"
)

const quick = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// blocking are routes whose requests last until release is closed, or their client has gone.
func blocking(entered chan<- struct{}, release <-chan struct{}) func(chi.Router) {
	return func(r chi.Router) {
		r.Get("/", func(http.ResponseWriter, *http.Request) {})
		r.Get("/slow", func(_ http.ResponseWriter, q *http.Request) {
			entered <- struct{}{}
			select {
			case <-release:
			case <-q.Context().Done():
			}
		})
	}
}

// busy opens a connection with a running request.
func busy(t *testing.T, s *Server, entered <-chan struct{}) *client {
	t.Helper()
	c := dial(t, s.Addr())
	c.send(t, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	wait.Receive(t, "the request starts", entered)
	return c
}

// hasMetric reports whether a line is among the admin server's metrics.
func hasMetric(t *testing.T, s *Server, line string) bool {
	t.Helper()
	c := dial(t, s.AdminAddr())
	c.send(t, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	return strings.Contains(c.ends(t), "\n"+line+"\n")
}

func TestConnections_OfOneAddressAreBounded(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnectionsPerIP = 3
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, cfg, blocking(entered, release))
	defer close(release)
	var open []*client
	for range 3 {
		open = append(open, busy(t, s, entered))
	}
	for range maxRejecting { // as many as get a response at once
		c := dial(t, s.Addr())
		c.send(t, quick)
		response := c.answer(t, http.MethodGet)
		if response.status != http.StatusTooManyRequests || response.header.Get("Retry-After") == "" || response.header.Get("Content-Type") != "application/json" {
			t.Fatalf("over the bound: %d %v", response.status, response.header)
		}
		must(t, c.Close())
	}
	if !hasMetric(t, s, fmt.Sprintf(`mediastack_http_connections_rejected_total{limit="client_ip"} %d`, maxRejecting)) {
		t.Error("rejected connections are not counted")
	}
	must(t, open[0].Close())
	wait.Until(t, "there is room again", func() bool {
		c := dial(t, s.Addr())
		defer func() { _ = c.Close() }()
		c.send(t, quick)
		return c.answer(t, http.MethodGet).status == http.StatusOK
	})
}

func TestConnections_OfTrustedProxiesCountAgainstTheTotalOnly(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnectionsPerIP, cfg.MaxConnections = 1, minConnections
	limits, err := ratelimit.New(ratelimit.Config{TrustedProxies: []string{"127.0.0.0/8"}}, ratelimit.Deps{Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	entered, release := make(chan struct{}), make(chan struct{})
	s := startWith(t, cfg, limits, blocking(entered, release))
	defer close(release)
	for range minConnections {
		busy(t, s, entered)
	}
	c := dial(t, s.Addr())
	c.send(t, quick)
	if response := c.answer(t, http.MethodGet); response.status != http.StatusServiceUnavailable || response.header.Get("Retry-After") == "" {
		t.Errorf("over the total: %d %v", response.status, response.header)
	}
}

func TestConnections_IdleOnesMakeRoom(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections = minConnections
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, cfg, blocking(entered, release))
	defer close(release)
	idle := dial(t, s.Addr()) // has had a request
	idle.send(t, quick)
	idle.answer(t, http.MethodGet)
	silent := dial(t, s.Addr()) // has sent nothing
	wait.Until(t, "both wait", func() bool {
		s.publicListener.mu.Lock()
		defer s.publicListener.mu.Unlock()
		return s.publicListener.waiting.Len() == 2
	})
	for range minConnections - 2 {
		busy(t, s, entered)
	}
	for range 2 {
		busy(t, s, entered)
	}
	for _, evicted := range []*client{idle, silent} {
		if text := evicted.ends(t); text != "" {
			t.Errorf("an idle connection got %q", text)
		}
	}
	wait.Until(t, "what was evicted counts no longer", func() bool {
		return hasMetric(t, s, fmt.Sprintf("mediastack_http_connections_open %d", minConnections))
	})
	if !hasMetric(t, s, "mediastack_http_connections_evicted_total 2") {
		t.Error("two evicted connections are not counted")
	}
}

func TestAdminServer_RespondsWhileThePublicServerIsFull(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections = minConnections
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, cfg, blocking(entered, release))
	defer close(release)
	for range minConnections {
		busy(t, s, entered)
	}
	for range 2 * maxAdminConnections { // idle connections are evicted as well
		c := dial(t, s.AdminAddr())
		c.send(t, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		if response := c.answer(t, http.MethodGet); response.status != http.StatusOK {
			t.Fatalf("/readyz: %d", response.status)
		}
	}
}

func TestAdminServer_RespondsWhilePublicBodiesAreWithheld(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.DiscardLimit, cfg.DiscardTimeout = 1<<20, maxDiscardTimeout
	s, began := start(t, cfg, rejecting), time.Now()
	for _, path := range []string{"/healthz", "/metrics", "/unknown"} {
		for range maxAdminConnections {
			dial(t, s.AdminAddr()).send(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
		}
	}
	wait.Until(t, "/readyz answers", func() bool {
		c := dial(t, s.AdminAddr())
		defer func() { _ = c.Close() }()
		c.send(t, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		response, err := http.ReadResponse(c.in, nil)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	if took := time.Since(began); took >= maxDiscardTimeout {
		t.Errorf("/readyz waited %s for the bodies of others", took)
	}
}

func TestMaxConnections_FitTheDescriptors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		configured  int
		descriptors uint64
		want        int
		reduced     bool
	}{
		{4096, 1 << 20, 4096, false},
		{0, 1 << 20, (1<<20 - 128) / 2, false},
		{4096, 1024, 448, true},
		{100, 1024, 100, false},
		{4096, 256, 64, true},
		{4096, 16, minConnections, true},
		{4096, 1 << 63, 4096, false}, // RLIM_INFINITY
	} {
		if got, reduced := maxConnections(c.configured, c.descriptors); got != c.want || reduced != c.reduced {
			t.Errorf("%d with %d descriptors: %d, %v", c.configured, c.descriptors, got, reduced)
		}
	}
}
