package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/limit"
	"mediastack.dev/runtime/redact"
)

// Handler is the public handler: the routes behind what every request passes.
func Handler(cfg Config, log *slog.Logger, metrics *metrics, limits *limit.Limiter, mounts ...func(chi.Router)) (http.Handler, error) {
	router := chi.NewRouter()
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		httpapi.WriteError(w, r, fault.New(fault.NotFound, "there is no such route"))
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed(router, r), ", "))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		httpapi.WriteErrorStatus(w, r, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "the route has other methods"))
	})
	for _, mount := range mounts {
		router.Group(mount)
	}
	// A browser must be able to read a refusal, so origins come before the limit.
	next, err := newOrigins(cfg, router, limitAddresses(limits, router))
	if err != nil {
		return nil, err
	}
	return &observer{next: next, cfg: cfg, limits: limits, log: log, metrics: metrics}, nil
}

// limitAddresses refuses who asks too often, before anything is looked up or read.
func limitAddresses(limits *limit.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		decision := limits.AllowIP(httpapi.FromContext(r.Context()).ClientIP)
		decision.AddHeaders(w.Header())
		if decision.Limited {
			httpapi.WriteError(w, r, decision.Err())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// methods are those that a route may have.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// allowed returns the methods of the route that has this path.
func allowed(routes chi.Routes, r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	var found []string
	for _, method := range methods {
		if routes.Match(chi.NewRouteContext(), method, path) {
			found = append(found, method)
		}
	}
	return found
}

// observer gives every request an id, deadlines, metrics and a line in the log, and
// survives a handler's panic.
type observer struct {
	next    http.Handler
	cfg     Config
	limits  *limit.Limiter
	log     *slog.Logger
	metrics *metrics
}

// requestID is what is taken over from a caller, unless it looks like a credential.
var requestID = regexp.MustCompile(`^[0-9A-Za-z._-]{8,64}$`)

// ServeHTTP begins and ends the request info of a request.
func (o *observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	id := r.Header.Get("X-Request-Id")
	if !requestID.MatchString(id) || redact.Secret(id) {
		id = uuid.NewString()
	}
	w.Header().Set("X-Request-Id", id)
	info := httpapi.NewRequestInfo(r, id, o.limits.ClientIP(r))
	route := chi.NewRouteContext()
	ctx := httpapi.NewContext(r.Context(), info)
	ctx = contextWithRoute(ctx, route)
	r = r.WithContext(ctx)
	body, writer := guard(o.cfg, w, r)
	if body != nil {
		r.Body = body
	}
	o.metrics.inFlight.Inc()
	defer func() {
		problem := recover()
		aborted := problem == http.ErrAbortHandler //nolint:errorlint // net/http compares it, too
		if problem != nil && !aborted {
			err := fault.Wrap(fmt.Errorf("panic: %v\n%s", problem, debug.Stack()), fault.Internal, "")
			if writer.status == 0 {
				httpapi.WriteError(writer, r, err)
			} else {
				httpapi.SetError(ctx, err)
				aborted = true // the answer has begun: only a cut tells that it is not whole
			}
		}
		took := time.Since(start)
		if !aborted {
			writer.finish()
		}
		body.finish()
		o.metrics.inFlight.Dec()
		o.done(r, info, route.RoutePattern(), writer, body, took, aborted)
		if aborted {
			panic(http.ErrAbortHandler)
		}
	}()
	o.next.ServeHTTP(writer, r)
}

// done counts the request and writes its line.
func (o *observer) done(r *http.Request, info *httpapi.RequestInfo, pattern string, writer *responseWriter, body *requestBody, took time.Duration, aborted bool) {
	if pattern == "" {
		pattern = "unmatched"
	}
	status := writer.status
	if status == 0 {
		status = http.StatusOK
	}
	o.metrics.observe(r.Method, pattern, status, took, body.count(), writer.written)
	level := slog.LevelInfo
	if status >= http.StatusInternalServerError || aborted {
		level = slog.LevelError
	}
	attributes := []slog.Attr{
		slog.String("request_id", info.RequestID),
		slog.String("method", r.Method),
		slog.String("route", pattern),
		slog.Int("status", status),
		slog.Int64("bytes_in", body.count()),
		slog.Int64("bytes_out", writer.written),
		slog.Duration("duration", took),
	}
	if info.AccountID != uuid.Nil {
		attributes = append(attributes, slog.String("account", info.AccountID.String()), slog.String("app", info.AppID.String()))
	}
	if aborted {
		attributes = append(attributes, slog.Bool("aborted", true))
	}
	if err := info.Err(); err != nil {
		attributes = append(attributes, slog.String("error", err.Error()))
	}
	o.log.LogAttrs(r.Context(), level, "request", attributes...)
}
