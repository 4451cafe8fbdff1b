package mcp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/jub0bs/cors"

	"mediastack.dev/runtime/fault"
)

// visitors knows by which hosts the endpoint is reached, and from which pages. A page
// that makes its own name lead here (DNS rebinding) comes with a host or an origin that
// is not on the list.
type visitors struct {
	hosts   []string
	origins []string
	pages   *cors.Middleware // knows the patterns of further origins; nil = there are none
}

func newVisitors(baseURL string, hosts, origins []string) (*visitors, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	v := &visitors{}
	for _, host := range append([]string{base.Host}, hosts...) {
		for _, name := range sameMachine(host) {
			if known := canonicalHost(base.Scheme, name); known != "" { // an empty setting is no host
				v.hosts = append(v.hosts, known)
			}
		}
	}
	for _, name := range sameMachine(base.Host) {
		v.origins = append(v.origins, base.Scheme+"://"+canonicalHost(base.Scheme, name))
	}
	origins = slices.DeleteFunc(slices.Clone(origins), func(text string) bool { return text == "" })
	if len(origins) > 0 {
		if v.pages, err = cors.NewMiddleware(cors.Config{Origins: origins}); err != nil {
			return nil, fmt.Errorf("SERVICE_CORS_ORIGINS: %w", err)
		}
	}
	return v, nil
}

// sameMachine returns a loopback host all of its names, and any other its own.
func sameMachine(host string) []string {
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

// canonicalHost is a host in lower case and without the scheme's own port; "" when it
// is none.
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

// check lets requests through that come by a known host and, when a page sends them,
// from a known origin.
func (v *visitors) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		switch {
		case !v.knowsHost(r.Host):
			refuse(w, r, errForeignHost)
		case len(origins) > 1 || len(origins) == 1 && !v.knowsOrigin(origins[0]):
			refuse(w, r, errForeignOrigin)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

var (
	errForeignHost   = errors.New("the service is not reached by this host name: use the address of SERVICE_BASE_URL, or have the name added to SERVICE_MCP_HOSTS")
	errForeignOrigin = errors.New("pages of this origin may not call the tools: have it added to SERVICE_CORS_ORIGINS")
)

// knowsHost compares under both schemes: behind a proxy that ends TLS, nobody says
// which one the client used.
func (v *visitors) knowsHost(host string) bool {
	return host != "" && (slices.Contains(v.hosts, canonicalHost("https", host)) || slices.Contains(v.hosts, canonicalHost("http", host)))
}

func (v *visitors) knowsOrigin(origin string) bool {
	if slices.Contains(v.origins, strings.ToLower(origin)) {
		return true
	}
	if v.pages == nil {
		return false
	}
	asked := &probe{header: http.Header{}}
	v.pages.Wrap(asked).ServeHTTP(asked, &http.Request{Method: http.MethodGet, Header: http.Header{"Origin": {origin}}})
	return asked.header.Get("Access-Control-Allow-Origin") != ""
}

// probe hears what package cors would tell a browser.
type probe struct{ header http.Header }

// Header is what was told.
func (p *probe) Header() http.Header { return p.header }

// Write takes no answer.
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader takes no status.
func (p *probe) WriteHeader(int) {}

// ServeHTTP has nothing to add.
func (p *probe) ServeHTTP(http.ResponseWriter, *http.Request) {}

// tooMuch is the fault of a body over its bounds.
func tooMuch(format string, args ...any) error { return fault.New(fault.TooLarge, format, args...) }
