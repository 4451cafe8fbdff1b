package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/jub0bs/cors"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/origin"
)

// publicPaths are the prefixes of paths that pages of every origin may request: files, which
// are protected by their URL, the OAuth endpoints of clients, and metadata. They use no cookies.
var publicPaths = []string{api.FilePath, api.WellKnownPath, api.ServerCardRoute, api.RegisterRoute, api.TokenRoute, api.RevokeRoute}

// preflightMaxAge is how long browsers cache a preflight, in seconds.
const preflightMaxAge = 600

// allowedHeaders returns the request headers that pages may set: credentials, and those of
// uploads, downloads, TUS and MCP.
func allowedHeaders(brand string) []string {
	return []string{
		"Authorization", "Content-Type", "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "X-Request-Id",
		"X-" + brand + "-Apikey", "X-" + brand + "-Signature",
		"Tus-Resumable", "Upload-Checksum", "Upload-Concat", "Upload-Defer-Length", "Upload-Length", "Upload-Metadata", "Upload-Offset", "X-Http-Method-Override",
		"Accept", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id",
	}
}

// exposedHeaders returns the response headers that pages may read, besides the safelisted
// ones.
func exposedHeaders(brand string) []string {
	return []string{
		"Accept-Ranges", "Allow", "Content-Disposition", "Content-Range", "ETag", "Link", "Location", "RateLimit", "RateLimit-Policy",
		"Retry-After", "WWW-Authenticate", "X-Next-Cursor", "X-Picture-Substitute", "X-Request-Id", "X-Total-Count",
		"Tus-Checksum-Algorithm", "Tus-Extension", "Tus-Max-Size", "Tus-Resumable", "Tus-Version",
		"Upload-Defer-Length", "Upload-Expires", "Upload-Length", "Upload-Metadata", "Upload-Offset",
		"X-" + brand + "-Media", "X-" + brand + "-Media-Id",
	}
}

// corsHandler implements CORS by route: a preflight lists the methods of its route. It never
// allows credentials mode, since the API uses no cookies.
type corsHandler struct {
	routes chi.Routes
	next   http.Handler
	files  http.Handler
	// byMethods has a handler for each set of methods that need a preflight.
	byMethods map[string]http.Handler
	headers   []string // allowedHeaders
}

// preflightMethods are the methods of routes that need a preflight.
var preflightMethods = []string{http.MethodPut, http.MethodPatch, http.MethodDelete}

func newCORSHandler(brand string, origins *origin.Policy, routes chi.Routes, next http.Handler) (*corsHandler, error) {
	config := cors.Config{Origins: []string{"*"}, RequestHeaders: allowedHeaders(brand), ResponseHeaders: exposedHeaders(brand), MaxAgeInSeconds: preflightMaxAge}
	files, err := cors.NewMiddleware(config)
	if err != nil {
		return nil, err
	}
	c := &corsHandler{routes: routes, next: next, files: files.Wrap(next), headers: config.RequestHeaders, byMethods: map[string]http.Handler{}}
	for set := range 1 << len(preflightMethods) {
		config := config
		for i, method := range preflightMethods {
			if set&(1<<i) != 0 {
				config.Methods = append(config.Methods, method)
			}
		}
		middleware := &cors.Middleware{} // passes everything on until it is configured
		c.byMethods[strings.Join(config.Methods, " ")] = middleware.Wrap(next)
		err := origins.OnChange(func(list []string) error {
			if len(list) == 0 {
				return middleware.Reconfigure(nil)
			}
			config.Origins = list
			return middleware.Reconfigure(&config)
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ServeHTTP handles preflights and adds CORS headers to other responses. The reason for a
// rejected preflight is logged, since the message of the browser does not include it.
func (c *corsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	public := slices.ContainsFunc(publicPaths, func(path string) bool { return strings.HasPrefix(r.URL.Path, path) })
	switch {
	case public:
		c.files.ServeHTTP(w, r)
	case r.Header.Get("Origin") == "":
		c.byMethods[""].ServeHTTP(w, r) // for its Vary
	default:
		methods := allowed(c.routes, r)
		methods = slices.DeleteFunc(slices.Clone(preflightMethods), func(method string) bool { return !slices.Contains(methods, method) })
		c.byMethods[strings.Join(methods, " ")].ServeHTTP(w, r)
	}
	if isPreflight(r) && w.Header().Get("Access-Control-Allow-Origin") == "" {
		httpapi.SetError(r.Context(), fault.New(fault.Forbidden, "preflight rejected for %s %s: %s", r.Header.Get("Access-Control-Request-Method"), r.URL.Path, c.reason(r)))
	}
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// reason returns why a preflight is rejected.
func (c *corsHandler) reason(r *http.Request) string {
	methods := allowed(c.routes, r)
	if len(methods) == 0 {
		return "route not found"
	}
	method := r.Header.Get("Access-Control-Request-Method")
	if slices.Contains(preflightMethods, method) && !slices.Contains(methods, method) {
		return fmt.Sprintf("the route has no method %s", method)
	}
	var headers []string
	for header := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		header = strings.TrimSpace(header)
		if header != "" && !slices.ContainsFunc(c.headers, func(known string) bool { return strings.EqualFold(known, header) }) {
			return fmt.Sprintf("pages may not set the header %q", header)
		}
		headers = append(headers, header)
	}
	if sent := strings.Join(headers, ","); sent != strings.Join(slices.Compact(slices.Sorted(strings.SplitSeq(strings.ToLower(sent), ","))), ",") {
		return "Access-Control-Request-Headers must be sorted, in lower case and without repetition, as browsers send it"
	}
	return fmt.Sprintf("neither SERVICE_CORS_ORIGINS nor an account names the origin %q", r.Header.Get("Origin"))
}
