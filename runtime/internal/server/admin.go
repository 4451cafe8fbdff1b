package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is a readiness check.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// degradedError is the error of a check that leaves the server ready.
type degradedError struct{ error }

// Unwrap returns the error.
func (e degradedError) Unwrap() error { return e.error }

// Degraded returns the error of a check that concerns some requests only: /readyz reports it, and
// the server stays ready. nil stays nil.
func Degraded(err error) error {
	if err == nil {
		return nil
	}
	return degradedError{err}
}

// checkTimeout bounds each check, so that a probe gets a response.
const checkTimeout = 2 * time.Second

// readiness is the response of /readyz.
type readiness struct {
	Ready    bool              `json:"ready"`
	Draining bool              `json:"draining,omitempty"`
	Degraded bool              `json:"degraded,omitempty"` // some requests are answered 503
	Checks   map[string]string `json:"checks"`             // by name: "ok" or the error
}

func (s *Server) adminHandler(registry *prometheus.Registry) http.Handler {
	router := chi.NewRouter()
	router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	router.Get("/readyz", s.handleReady)
	router.Group(func(router chi.Router) {
		// The probes of the kubelet have no token.
		if file := s.cfg.AdminTLS.TokenFile; file != "" {
			router.Use(withToken(file, s.log))
		}
		router.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		if s.cfg.Pprof {
			mountPprof(router)
		}
	})
	return router
}

// mountPprof adds the profiles of the process. Their handlers extend the write deadline by the
// duration of the profile.
func mountPprof(router chi.Router) {
	router.Route("/debug/pprof", func(r chi.Router) {
		r.Use(withoutReadDeadline)
		r.Get("/*", pprof.Index)
		r.Get("/cmdline", http.NotFound) // flags may hold credentials
		r.Get("/profile", pprof.Profile)
		r.HandleFunc("/symbol", pprof.Symbol)
		r.Get("/trace", pprof.Trace)
	})
}

// withoutReadDeadline removes the deadline for reading the request, which would end a profile that
// takes longer.
func withoutReadDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a transport without deadlines has none
		next.ServeHTTP(w, r)
	})
}

// guarded sets the deadlines of the public server, and responds without reading bodies.
func guarded(cfg Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, writer := withDeadlines(cfg, nil, w, r)
		next.ServeHTTP(writer, r)
		writer.finish()
		body.finish(false)
	})
}

// handleReady runs the checks concurrently.
func (s *Server) handleReady(w http.ResponseWriter, r *http.Request) {
	result := readiness{Draining: s.draining.Load(), Checks: map[string]string{}}
	result.Ready = !result.Draining
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, check := range s.checks {
		group.Go(func() {
			err := check.Run(ctx)
			mu.Lock()
			defer mu.Unlock()
			result.Checks[check.Name] = "ok"
			if err == nil {
				return
			}
			result.Checks[check.Name] = err.Error()
			if errors.As(err, new(degradedError)) {
				result.Degraded = true
			} else {
				result.Ready = false
			}
		})
	}
	group.Wait()
	w.Header().Set("Content-Type", "application/json")
	if !result.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(result) // the probe may be gone
}
