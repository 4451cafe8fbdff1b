package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/jub0bs/cors"
	"github.com/jub0bs/cors/cfgerrors"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
)

// openPaths begin what scripts of every origin may call: files, since whoever has the
// address of one may fetch it, and what an application needs that wants to be connected.
// There is no cookie there that a foreign page could ride on.
var openPaths = []string{api.FilePath, api.WellKnownPath, api.RegisterRoute, api.TokenRoute, api.RevokeRoute}

// preflightAge is how long a browser remembers what it may send, in seconds.
const preflightAge = 600

// fromPages are the request headers that pages may set: credentials, what uploads and
// downloads need, and those of TUS and MCP.
func fromPages(brand string) []string {
	return []string{
		"Authorization", "Content-Type", "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "X-Request-Id",
		"X-" + brand + "-Apikey", "X-" + brand + "-Signature",
		"Tus-Resumable", "Upload-Checksum", "Upload-Concat", "Upload-Defer-Length", "Upload-Length", "Upload-Metadata", "Upload-Offset", "X-Http-Method-Override",
		"Accept", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id",
	}
}

// toPages are the answer headers that pages may read, besides those that always are.
func toPages(brand string) []string {
	return []string{
		"Accept-Ranges", "Allow", "Content-Disposition", "Content-Range", "ETag", "Link", "Location", "RateLimit", "RateLimit-Policy",
		"Retry-After", "WWW-Authenticate", "X-Request-Id", "X-Total-Count",
		"Tus-Checksum-Algorithm", "Tus-Extension", "Tus-Max-Size", "Tus-Resumable", "Tus-Version",
		"Upload-Defer-Length", "Upload-Expires", "Upload-Length", "Upload-Metadata", "Upload-Offset",
		"X-" + brand + "-Media", "X-" + brand + "-Media-Id",
	}
}

// origins answers the cross-origin questions of browsers (CORS), by route: a
// preflight is told of the methods that its route has. There is no credentials mode;
// nothing here lives on cookies.
type origins struct {
	routes chi.Routes
	next   http.Handler
	files  http.Handler
	// others has a handler for each set of methods that needs a preflight; nil when no
	// origin is allowed.
	others  map[string]http.Handler
	headers []string // that pages may set
}

// preflighted are the methods that a browser asks about, as far as routes have them.
var preflighted = []string{http.MethodPut, http.MethodPatch, http.MethodDelete}

func newOrigins(cfg Config, routes chi.Routes, next http.Handler) (*origins, error) {
	config := cors.Config{Origins: []string{"*"}, RequestHeaders: fromPages(cfg.Brand), ResponseHeaders: toPages(cfg.Brand), MaxAgeInSeconds: preflightAge}
	files, err := cors.NewMiddleware(config)
	if err != nil {
		return nil, err
	}
	o := &origins{routes: routes, next: next, files: files.Wrap(next), headers: config.RequestHeaders}
	config.Origins = slices.DeleteFunc(slices.Clone(cfg.CORSOrigins), func(text string) bool { return text == "" })
	if len(config.Origins) == 0 {
		return o, nil
	}
	o.others = map[string]http.Handler{}
	for set := range 1 << len(preflighted) {
		config.Methods = nil
		for i, method := range preflighted {
			if set&(1<<i) != 0 {
				config.Methods = append(config.Methods, method)
			}
		}
		middleware, err := cors.NewMiddleware(config)
		if err != nil {
			return nil, fmt.Errorf("SERVICE_CORS_ORIGINS: %w", firstOf(err))
		}
		o.others[strings.Join(config.Methods, " ")] = middleware.Wrap(next)
	}
	return o, nil
}

// firstOf returns one sentence of several.
func firstOf(err error) error {
	var origin *cfgerrors.UnacceptableOriginPatternError
	if errors.As(err, &origin) {
		return origin
	}
	return err
}

// ServeHTTP answers a preflight, and passes everything else on. Of a preflight that is
// rejected the log says why: the browser's own message does not.
func (o *origins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := slices.ContainsFunc(openPaths, func(path string) bool { return strings.HasPrefix(r.URL.Path, path) })
	switch {
	case open:
		o.files.ServeHTTP(w, r)
	case o.others == nil:
		o.next.ServeHTTP(w, r)
	case r.Header.Get("Origin") == "":
		o.others[""].ServeHTTP(w, r) // for its Vary
	default:
		methods := allowed(o.routes, r)
		methods = slices.DeleteFunc(slices.Clone(preflighted), func(method string) bool { return !slices.Contains(methods, method) })
		o.others[strings.Join(methods, " ")].ServeHTTP(w, r)
	}
	if isPreflight(r) && w.Header().Get("Access-Control-Allow-Origin") == "" {
		httpapi.SetError(r.Context(), fault.New(fault.Forbidden, "preflight rejected for %s %s: %s", r.Header.Get("Access-Control-Request-Method"), r.URL.Path, o.reason(r)))
	}
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// reason returns what keeps a page from making a request.
func (o *origins) reason(r *http.Request) string {
	if o.others == nil {
		return "SERVICE_CORS_ORIGINS names no origin"
	}
	methods := allowed(o.routes, r)
	if len(methods) == 0 {
		return "there is no such route"
	}
	method := r.Header.Get("Access-Control-Request-Method")
	if slices.Contains(preflighted, method) && !slices.Contains(methods, method) {
		return fmt.Sprintf("the route has no method %s", method)
	}
	var headers []string
	for header := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		header = strings.TrimSpace(header)
		if header != "" && !slices.ContainsFunc(o.headers, func(known string) bool { return strings.EqualFold(known, header) }) {
			return fmt.Sprintf("pages may not set the header %q", header)
		}
		headers = append(headers, header)
	}
	if sent := strings.Join(headers, ","); sent != strings.Join(slices.Compact(slices.Sorted(strings.SplitSeq(strings.ToLower(sent), ","))), ",") {
		return "Access-Control-Request-Headers must be sorted, in lower case and without repetition, as browsers send it"
	}
	return fmt.Sprintf("SERVICE_CORS_ORIGINS does not name the origin %q", r.Header.Get("Origin"))
}
