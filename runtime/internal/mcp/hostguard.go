package mcp

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/origin"
)

// hostGuard validates the headers Host and Origin against an allow-list, to prevent DNS
// rebinding. The list is derived from the base URL and the configuration.
type hostGuard struct {
	hosts   []string
	origins []string
	further *origin.Policy
}

func newHostGuard(baseURL string, hosts []string, further *origin.Policy) (*hostGuard, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	g := &hostGuard{further: further}
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
	errOriginNotAllowed = fault.New(fault.Forbidden, "origin not allowed: add it to SERVICE_CORS_ORIGINS, or to spec.cors.origins of the MediaAccount")
)

// allowsHost compares under both schemes: behind a proxy that terminates TLS, the scheme that
// the client used is unknown.
func (g *hostGuard) allowsHost(host string) bool {
	return host != "" && (slices.Contains(g.hosts, canonicalHost("https", host)) || slices.Contains(g.hosts, canonicalHost("http", host)))
}

func (g *hostGuard) allowsOrigin(text string) bool {
	return slices.Contains(g.origins, strings.ToLower(text)) || g.further.Allows(text)
}

// bodyTooLarge returns the fault of a body that exceeds a bound.
func bodyTooLarge(format string, args ...any) error {
	return fault.New(fault.TooLarge, format, args...)
}
