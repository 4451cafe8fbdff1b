package testenv

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/chaos/faults"
)

// S3Proxy returns access to a store through a proxy, which answers a request itself where
// answer returns true: as other stores do, or as a store that dies.
func S3Proxy(t testing.TB, access servers.S3Access, answer func(w http.ResponseWriter, r *http.Request) bool) servers.S3Access {
	t.Helper()
	target, err := url.Parse(access.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }} // the host is signed
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	access.Endpoint = server.URL
	return access
}

// TCPProxy is a proxy that ends, holds back or swallows what passes through it.
type TCPProxy = faults.Proxy

// ProxyMode is what a TCPProxy does.
type ProxyMode = faults.Mode

// Modes of a TCPProxy.
const (
	// ProxyOpen passes everything.
	ProxyOpen = faults.Open
	// ProxyCut ends every connection and takes none.
	ProxyCut = faults.Cut
	// ProxyStall keeps connections, and holds back what is sent both ways.
	ProxyStall = faults.Stall
	// ProxyMute passes what is asked and swallows what is answered.
	ProxyMute = faults.Mute
)

// NewTCPProxy starts a proxy in front of an address: host and port.
func NewTCPProxy(t testing.TB, target string) *TCPProxy {
	t.Helper()
	proxy, err := faults.StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// PostgresProxy starts a proxy in front of a server that listens on TCP, and returns the URL of a
// database through it.
func PostgresProxy(t testing.TB, databaseURL string) (*TCPProxy, string) {
	t.Helper()
	address, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := NewTCPProxy(t, address.Host)
	address.Host = proxy.String()
	return proxy, address.String()
}
