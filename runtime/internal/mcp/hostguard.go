package mcp

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/jub0bs/cors"

	"mediastack.dev/runtime/fault"
)

// hostGuard validates the headers Host and Origin against an allow-list, to prevent DNS
// rebinding. The list is derived from the base URL and the configuration.
type hostGuard struct {
	hosts   []string
	origins []string
	cors    *cors.Middleware // matches the patterns of further origins; nil = no such origins
}

func newHostGuard(baseURL string, hosts, origins []string) (*hostGuard, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	g := &hostGuard{}
	for _, host := range append([]string{base.Host}, hosts...) {
		for _, name := range loopbackAliases(host) {
			if known := canonicalHost(base.Scheme, name); known != "" { // an empty setting is no host
				g.hosts = append(g.hosts, known)
			}
		}
	}
	for _, name := range loopbackAliases(base.Host) {
		g.origins = append(g.origins, base.Scheme+"://"+canonicalHost(base.Scheme, name))
	}
	origins = slices.DeleteFunc(slices.Clone(origins), func(text string) bool { return text == "" })
	if len(origins) > 0 {
		if g.cors, err = cors.NewMiddleware(cors.Config{Origins: origins}); err != nil {
			return nil, fmt.Errorf("SERVICE_CORS_ORIGINS: %w", err)
		}
	}
	return g, nil
}

// loopbackAliases returns all names of a loopback host, and of any other host its own.
func loopbackAliases(host string) []string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return []string{host}
	}
	if port != "" {
		port = ":" + port
	}
	return []string{host, "localhost" + port, "127.0.0.1" + port, "[::1]" + port}
}

// canonicalHost returns a host in lower case and without the default port of the scheme, or ""
// if it is malformed.
func canonicalHost(scheme, host string) string {
	parsed, err := url.Parse(scheme + "://" + strings.ToLower(host))
	if err != nil || parsed.Hostname() == "" || parsed.Host != strings.ToLower(host) {
		return ""
	}
	if port := parsed.Port(); scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		return strings.TrimSuffix(parsed.Host, ":"+port)
	}
	return strings.TrimSuffix(parsed.Host, ":")
}

// check is the middleware that rejects requests with another host or, if a browser sends them,
// from another origin.
func (g *hostGuard) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		switch {
		case !g.allowsHost(r.Host):
			writeRPCError(w, r, errHostNotAllowed)
		case len(origins) > 1 || len(origins) == 1 && !g.allowsOrigin(origins[0]):
			writeRPCError(w, r, errOriginNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

var (
	errHostNotAllowed   = fault.New(fault.Forbidden, "host not allowed: use SERVICE_BASE_URL, or add the host to SERVICE_MCP_HOSTS")
	errOriginNotAllowed = fault.New(fault.Forbidden, "origin not allowed: add it to SERVICE_CORS_ORIGINS")
)

// allowsHost compares under both schemes: behind a proxy that terminates TLS, the scheme that
// the client used is unknown.
func (g *hostGuard) allowsHost(host string) bool {
	return host != "" && (slices.Contains(g.hosts, canonicalHost("https", host)) || slices.Contains(g.hosts, canonicalHost("http", host)))
}

func (g *hostGuard) allowsOrigin(origin string) bool {
	if slices.Contains(g.origins, strings.ToLower(origin)) {
		return true
	}
	if g.cors == nil {
		return false
	}
	probe := &corsProbe{header: http.Header{}}
	g.cors.Wrap(probe).ServeHTTP(probe, &http.Request{Method: http.MethodGet, Header: http.Header{"Origin": {origin}}})
	return probe.header.Get("Access-Control-Allow-Origin") != ""
}

// corsProbe captures the headers that package cors would send to a browser.
type corsProbe struct{ header http.Header }

// Header returns the captured headers.
func (p *corsProbe) Header() http.Header { return p.header }

// Write ignores the body.
func (p *corsProbe) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader ignores the status.
func (p *corsProbe) WriteHeader(int) {}

// ServeHTTP does nothing.
func (p *corsProbe) ServeHTTP(http.ResponseWriter, *http.Request) {}

// bodyTooLarge returns the fault of a body that exceeds a bound.
func bodyTooLarge(format string, args ...any) error {
	return fault.New(fault.TooLarge, format, args...)
}
