package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one thing that has to work before requests should come.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// checkTimeout bounds each check, so that a probe gets its answer.
const checkTimeout = 2 * time.Second

// readiness is what /readyz says.
type readiness struct {
	Ready    bool              `json:"ready"`
	Draining bool              `json:"draining,omitempty"`
	Checks   map[string]string `json:"checks"` // "ok", or what is wrong
}

func (s *Server) adminHandler(registry *prometheus.Registry) http.Handler {
	router := chi.NewRouter()
	router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	router.Get("/readyz", s.ready)
	router.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return router
}

// guarded answers requests whose body nobody reads before it comes, as the public server
// does.
func guarded(cfg Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, writer := guard(cfg, w, r)
		next.ServeHTTP(writer, r)
		writer.finish()
		body.finish()
	})
}

// ready runs the checks, all at once.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	answer := readiness{Draining: s.draining.Load(), Checks: map[string]string{}}
	answer.Ready = !answer.Draining
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, check := range s.checks {
		group.Go(func() {
			err := check.Run(ctx)
			mu.Lock()
			defer mu.Unlock()
			if answer.Checks[check.Name] = "ok"; err != nil {
				answer.Checks[check.Name], answer.Ready = err.Error(), false
			}
		})
	}
	group.Wait()
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // the probe that left asks again
}
