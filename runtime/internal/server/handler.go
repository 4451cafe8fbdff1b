package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/redact"
)

var errNoRoute = fault.New(fault.NotFound, "route not found")

// newHandler returns the public handler: the routes of deps.Mounts behind the common middleware. counted has the bounds of
// bodies; nil = they are not counted.
func newHandler(cfg Config, deps Deps, metrics *metrics, counted *bodies) (http.Handler, error) {
	router := chi.NewRouter()
	router.Use(rejectRouteAsItem(router), headAsGet(router))
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		httpapi.WriteError(w, r, errNoRoute)
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		methods := allowed(router, r)
		if len(methods) == 0 { // of an unknown method
			httpapi.WriteError(w, r, errNoRoute)
			return
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if r.Method == http.MethodGet && isItem(router, r) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			httpapi.WriteErrorStatus(w, r, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "this route has the methods %s; an item is read at %s", strings.Join(methods, ", "), api.GetRoute))
			return
		}
		httpapi.WriteMethodNotAllowed(w, r, methods...)
	})
	for _, mount := range deps.Mounts {
		router.Group(mount)
	}
	// CORS comes before the rate limit, so that a page can read the error.
	next, err := newCORSHandler(cfg.Brand, deps.Origins, router, limitClientIPs(deps.Limits, router))
	if err != nil {
		return nil, err
	}
	return &instrumentation{next: next, routes: router, cfg: cfg, limits: deps.Limits, log: deps.Log, metrics: metrics, bodies: counted, accounts: deps.Accounts, tracer: newRequestTracer(cfg, deps.Tracer, deps.Limits)}, nil
}

// limitClientIPs applies the limits of client IPs, of requests and of bodies, before anything is read or looked up.
func limitClientIPs(limits *ratelimit.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip := httpapi.FromContext(r.Context()).ClientIP
		decision := limits.AllowIP(ip)
		decision.AddHeaders(w.Header())
		err := decision.Err()
		if body, ok := r.Body.(*requestBody); ok && err == nil {
			err = body.arrival.admitClient(ip)
		}
		if err != nil {
			httpapi.WriteError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// methods are the methods that a route may have.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// withoutSlash returns the request without a slash at the end of its path, unless a route has the slash. Clients add one, and no
// route differs by it.
func withoutSlash(routes chi.Routes, r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	if len(path) < 2 || !strings.HasSuffix(path, "/") || len(allowed(routes, r)) > 0 {
		return r
	}
	trimmed, address := *r, *r.URL
	address.Path, address.RawPath = strings.TrimSuffix(address.Path, "/"), strings.TrimSuffix(address.RawPath, "/")
	trimmed.URL = &address
	return &trimmed
}

// headAsGet routes HEAD as GET where it has no route of its own. net/http sends no body.
func headAsGet(routes chi.Routes) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead && !routes.Match(chi.NewRouteContext(), http.MethodHead, routePath(r)) {
				chi.RouteContext(r.Context()).RouteMethod = http.MethodGet
			}
			next.ServeHTTP(w, r)
		})
	}
}

// routePath returns the path as the router reads it.
func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

// rejectRouteAsItem answers a change of what is no item: /media/create has the form of /media/{mediaId}, which has a method
// that /media/create lacks.
func rejectRouteAsItem(routes chi.Routes) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch && isItem(routes, r) {
				if methods := allowed(routes, r); !slices.Contains(methods, http.MethodPatch) {
					httpapi.WriteMethodNotAllowed(w, r, methods...)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// allowed returns the methods of the route that has this path. One that answers GET answers HEAD.
func allowed(routes chi.Routes, r *http.Request) []string {
	path := routePath(r)
	var found, static []string
	for _, method := range methods {
		match := chi.NewRouteContext()
		if !routes.Match(match, method, path) && (method != http.MethodHead || !routes.Match(match, http.MethodGet, path)) {
			continue
		}
		found = append(found, method)
		if !strings.Contains(match.RoutePattern(), "{") {
			static = append(static, method)
		}
	}
	if static != nil { // not those of an item whose id would be the last segment, such as get
		return static
	}
	return found
}

// isItem reports whether a path is that of the route which changes an item.
func isItem(routes chi.Routes, r *http.Request) bool {
	match := chi.NewRouteContext()
	return routes.Match(match, http.MethodPatch, r.URL.Path) && match.RoutePattern() == api.ItemRoute
}

// instrumentation is the outermost middleware: request id, deadlines, metrics, traces, request log
// and recovery from panics.
type instrumentation struct {
	next     http.Handler
	routes   chi.Routes
	cfg      Config
	limits   *ratelimit.Limiter
	log      *slog.Logger
	metrics  *metrics
	bodies   *bodies
	accounts *accountmetrics.Metrics
	tracer   *requestTracer
}

// requestIDPattern matches the request ids that are accepted from clients, unless they look
// like a credential.
var requestIDPattern = regexp.MustCompile(`^[0-9A-Za-z._-]{8,64}$`)

// ServeHTTP handles a request.
func (i *instrumentation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	r = withoutSlash(i.routes, r)
	id := r.Header.Get("X-Request-Id")
	if id == "" || !requestIDPattern.MatchString(id) || redact.Secret(id) {
		id = uuid.NewString()
	}
	w.Header().Set("X-Request-Id", id)
	info := httpapi.NewRequestInfo(r, id, i.limits.ClientIP(r))
	route := chi.NewRouteContext()
	ctx := httpapi.NewContext(r.Context(), info)
	ctx = i.tracer.start(contextWithRoute(ctx, route), r)
	r = r.WithContext(ctx)
	body, writer := withDeadlines(i.cfg, i.bodies, w, r)
	if body != nil {
		r.Body = body
	}
	i.metrics.inFlight.Inc()
	defer func() {
		panicked := recover()
		aborted := panicked == http.ErrAbortHandler //nolint:errorlint // net/http compares it, too
		if panicked != nil && !aborted {
			err := fault.Wrap(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()), fault.Internal, "")
			if writer.status == 0 {
				httpapi.WriteError(writer, r, err)
			} else {
				httpapi.SetError(ctx, err)
				aborted = true // the header was sent: only a closed connection shows that the response is incomplete
			}
		}
		elapsed := time.Since(start)
		if !aborted {
			writer.finish()
		}
		body.finish(aborted)
		i.metrics.inFlight.Dec()
		i.finish(r, info, route.RoutePattern(), writer, body, elapsed, aborted)
		if aborted {
			panic(http.ErrAbortHandler)
		}
	}()
	i.next.ServeHTTP(writer, r)
}

// failed reports whether the service failed a request, or a tool call in it, and not because the client
// left.
func failed(ctx context.Context, status int, err error) bool {
	if status >= http.StatusInternalServerError || err == nil || ctx.Err() != nil {
		return status >= http.StatusInternalServerError
	}
	kind := fault.From(err).Kind
	return kind == fault.Internal || kind == fault.Unavailable
}

// recordedStatus returns the status for the metrics and the log. Clients of resumable uploads repeat a request after 503, and not after
// 408 or 429, so they get 503 although the service has not failed.
func recordedStatus(sent int, err error) int {
	switch {
	case sent != http.StatusServiceUnavailable:
		return sent
	case fault.Is(err, fault.Busy):
		return http.StatusTooManyRequests
	case fault.ReasonOf(err) == fault.IncompleteBody:
		return http.StatusRequestTimeout
	}
	return sent
}

// finish records the metrics and the log line of a request.
func (i *instrumentation) finish(r *http.Request, info *httpapi.RequestInfo, pattern string, writer *responseWriter, body *requestBody, elapsed time.Duration, aborted bool) {
	if pattern == "" {
		pattern = "unmatched"
	}
	status := writer.status
	if status == 0 {
		status = http.StatusOK
	}
	sent := status
	status = recordedStatus(sent, info.Err())
	i.metrics.observe(r.Method, pattern, status, elapsed-info.Waited, body.count(), writer.written)
	defer i.tracer.end(r, info, pattern, status, body.count(), writer.written, aborted)
	i.accounts.Count(info.Account, accountmetrics.Request{Status: status, Failed: failed(r.Context(), status, info.Err()), In: body.count(), Out: writer.written})
	level := slog.LevelInfo
	if status >= http.StatusInternalServerError && fault.ReasonOf(info.Err()) != fault.Starting || aborted {
		level = slog.LevelError // that a process starts is no error of it
	}
	attributes := []slog.Attr{
		slog.String("method", r.Method),
		slog.String("route", pattern),
		slog.Int("status", status),
		slog.Int64("bytes_in", body.count()),
		slog.Int64("bytes_out", writer.written),
		slog.Duration("duration", elapsed),
	}
	if info.AccountID != uuid.Nil {
		attributes = append(attributes, slog.String("account", info.AccountID.String()), slog.String("app", info.AppID.String()))
	}
	if info.Waited > 0 {
		attributes = append(attributes, slog.Duration("waited", info.Waited))
	}
	if sent != status {
		attributes = append(attributes, slog.Int("sent_status", sent))
	}
	if aborted {
		attributes = append(attributes, slog.Bool("aborted", true))
	}
	if err := info.Err(); err != nil {
		attributes = append(attributes, slog.String("error", err.Error()))
	}
	i.log.LogAttrs(r.Context(), level, "request", attributes...)
}
