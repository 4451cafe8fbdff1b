package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/ratelimit"
)

// preflight sends the preflight request of a browser.
func (rt *runtime) preflight(t *testing.T, path, origin, method, headers string) answer {
	t.Helper()
	return rt.do(t, http.MethodOptions, path, header("Origin", origin), header("Access-Control-Request-Method", method), header("Access-Control-Request-Headers", headers))
}

func TestCORS_OnlyAllowedOriginsUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.runtime(t, func(o *options) {
		o.server.CORSOrigins = []string{"https://app.example.org", "https://*.apps.example.org"}
		o.limits = ratelimit.Config{Key: 0.01, KeyBurst: 3}
	})
	granted := rt.sign(t, one.Key, "")
	const allow, methods, headers = "Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers"
	for origin, good := range map[string]bool{
		"https://app.example.org": true, "https://a.apps.example.org": true, "https://a.b.apps.example.org": true,
		"https://apps.example.org": false, "http://app.example.org": false, "https://app.example.org:8443": false,
		"https://app.example.org.evil.test": false, "https://evilapp.example.org": false, "null": false,
	} {
		preflight := rt.preflight(t, "/media/create", origin, "POST", "content-type,x-service-signature")
		if (preflight.header.Get(allow) == origin) != good || (preflight.status == http.StatusNoContent) != good {
			t.Errorf("the preflight from %s: %d %v", origin, preflight.status, preflight.header)
		}
		if good && (!strings.Contains(preflight.header.Get(headers), "x-service-signature") || preflight.header.Get("Access-Control-Max-Age") == "") {
			t.Errorf("%s: the headers are %v", origin, preflight.header)
		}
		if preflight.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: the headers are %v", origin, preflight.header)
		}
	}
	file := filePart("a.txt", []byte("x"))
	got := rt.do(t, http.MethodPost, "/media/create", header("Origin", "https://app.example.org"), signature(granted), form(file))
	exposed := strings.ToLower(strings.Join(got.header.Values("Access-Control-Expose-Headers"), ","))
	if got.status != http.StatusCreated || got.header.Get(allow) != "https://app.example.org" || got.header.Get("Vary") != "Origin" {
		t.Errorf("the upload: %d %v", got.status, got.header)
	}
	for _, name := range []string{"x-total-count", "link", "location", "retry-after", "ratelimit", "ratelimit-policy", "x-request-id", "etag", "content-range", "upload-offset"} {
		if !strings.Contains(exposed, name) {
			t.Errorf("pages can't read %s: %s", name, exposed)
		}
	}
	// Pages can read error responses, also those of limits.
	for _, status := range []int{http.StatusCreated, http.StatusTooManyRequests} {
		got := rt.do(t, http.MethodPost, "/media/create", header("Origin", "https://app.example.org"), signature(granted), form(file))
		if got.status != status || got.header.Get(allow) == "" {
			t.Errorf("want %d: %d %v", status, got.status, got.header)
		}
	}
	if got := rt.do(t, http.MethodPost, "/media/create", header("Origin", "https://evil.test"), form(file)); got.header.Get(allow) != "" || got.header.Get("Vary") != "Origin" {
		t.Errorf("a page of another origin: %v", got.header)
	}

	// The allowed methods are those of the route; the allowed headers are a fixed list.
	if got := rt.preflight(t, "/media/delete/"+anyItem, "https://app.example.org", "DELETE", "x-service-apikey"); got.header.Get(methods) != "DELETE" || got.status != http.StatusNoContent {
		t.Errorf("delete: %d %v", got.status, got.header)
	}
	if got := rt.preflight(t, "/media/get", "https://app.example.org", "DELETE", ""); got.status == http.StatusNoContent {
		t.Errorf("a method that the route lacks: %d %v", got.status, got.header)
	}
	if got := rt.preflight(t, "/media/get", "https://app.example.org", "GET", "x-evil"); got.status == http.StatusNoContent {
		t.Errorf("an unknown header: %d %v", got.status, got.header)
	}
}

func TestCORS_WithoutOriginsAllowsFilesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.runtime(t)
	public := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
	private := rt.upload(t, one.Key, filePart("b.txt", []byte("hello")))
	const allow = "Access-Control-Allow-Origin"
	for _, address := range []string{public.File, private.File} {
		got := rt.do(t, http.MethodGet, address, header("Origin", "https://anywhere.test"), header("Range", "bytes=0-1"))
		if got.status != http.StatusPartialContent || got.header.Get(allow) != "*" || !strings.Contains(strings.ToLower(got.header.Get("Access-Control-Expose-Headers")), "content-range") {
			t.Errorf("a file: %d %v", got.status, got.header)
		}
		if got := rt.preflight(t, address, "https://anywhere.test", "GET", "if-none-match,range"); got.status != http.StatusNoContent || got.header.Get(allow) != "*" {
			t.Errorf("a file's preflight: %d %v", got.status, got.header)
		}
	}
	for _, got := range []answer{
		rt.preflight(t, "/media/create", "https://anywhere.test", "POST", "x-service-signature"),
		rt.do(t, http.MethodGet, "/media/get", key(one.Key), header("Origin", "https://anywhere.test")),
		rt.preflight(t, "/no/such/route", "https://anywhere.test", "POST", ""),
	} {
		if got.header.Get(allow) != "" {
			t.Errorf("no origin is allowed, but %v", got.header)
		}
	}
	all := w.runtime(t, func(o *options) { o.server.CORSOrigins = []string{"*"} })
	if got := all.preflight(t, "/media/create", "https://anywhere.test", "POST", "x-service-signature"); got.header.Get(allow) != "*" {
		t.Errorf("all origins: %d %v", got.status, got.header)
	}
}
