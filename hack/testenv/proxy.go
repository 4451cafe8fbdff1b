package testenv

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"mediastack.dev/hack/servers"
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
