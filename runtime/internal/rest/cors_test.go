package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/runtimetest"
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
		o.Server.Origins.Patterns = []string{"https://app.example.org", "https://*.apps.example.org"}
		o.Limits = ratelimit.Config{Key: 0.01, KeyBurst: 3}
	})
	granted := rt.sign(t, one.Key, "")
	const allow, methods, headers = "Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers"
	for origin, good := range map[string]bool{
		"https://app.example.org": true, "https://a.apps.example.org": true, "https://a.b.apps.example.org": true,
		"https://apps.example.org": false, "http://app.example.org": false, "https://app.example.org:8443": false,
		"https://app.example.org.evil.test": false, "https://evilapp.example.org": false, "null": false,
	} {
		preflight := rt.preflight(t, "/media/create", origin, "POST", "content-type,x-service-signature")
		if (preflight.Header.Get(allow) == origin) != good || (preflight.Status == http.StatusNoContent) != good {
			t.Errorf("the preflight from %s: %d %v", origin, preflight.Status, preflight.Header)
		}
		if good && (!strings.Contains(preflight.Header.Get(headers), "x-service-signature") || preflight.Header.Get("Access-Control-Max-Age") == "") {
			t.Errorf("%s: the headers are %v", origin, preflight.Header)
		}
		if preflight.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: the headers are %v", origin, preflight.Header)
		}
	}
	file := filePart("a.txt", []byte("x"))
	got := rt.do(t, http.MethodPost, "/media/create", header("Origin", "https://app.example.org"), signature(granted), form(file))
	exposed := strings.ToLower(strings.Join(got.Header.Values("Access-Control-Expose-Headers"), ","))
	if got.Status != http.StatusCreated || got.Header.Get(allow) != "https://app.example.org" || got.Header.Get("Vary") != "Origin" {
		t.Errorf("the upload: %d %v", got.Status, got.Header)
	}
	for _, name := range []string{"x-total-count", "link", "location", "retry-after", "ratelimit", "ratelimit-policy", "x-request-id", "etag", "content-range", "upload-offset"} {
		if !strings.Contains(exposed, name) {
			t.Errorf("pages can't read %s: %s", name, exposed)
		}
	}
	// Pages can read error responses, also those of limits.
	for _, status := range []int{http.StatusCreated, http.StatusTooManyRequests} {
		got := rt.do(t, http.MethodPost, "/media/create", header("Origin", "https://app.example.org"), signature(granted), form(file))
		if got.Status != status || got.Header.Get(allow) == "" {
			t.Errorf("want %d: %d %v", status, got.Status, got.Header)
		}
	}
	if got := rt.do(t, http.MethodPost, "/media/create", header("Origin", "https://evil.test"), form(file)); got.Header.Get(allow) != "" || got.Header.Get("Vary") != "Origin" {
		t.Errorf("a page of another origin: %v", got.Header)
	}

	// The allowed methods are those of the route; the allowed headers are a fixed list.
	if got := rt.preflight(t, "/media/delete/"+anyItem, "https://app.example.org", "DELETE", "x-service-apikey"); got.Header.Get(methods) != "DELETE" || got.Status != http.StatusNoContent {
		t.Errorf("delete: %d %v", got.Status, got.Header)
	}
	if got := rt.preflight(t, "/media/get", "https://app.example.org", "DELETE", ""); got.Status == http.StatusNoContent {
		t.Errorf("a method that the route lacks: %d %v", got.Status, got.Header)
	}
	if got := rt.preflight(t, "/media/get", "https://app.example.org", "GET", "x-evil"); got.Status == http.StatusNoContent {
		t.Errorf("an unknown header: %d %v", got.Status, got.Header)
	}
}

func TestCORS_WithoutOriginsAllowsFilesOnly(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	public := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
	private := rt.upload(t, one.Key, filePart("b.txt", []byte("hello")))
	const allow = "Access-Control-Allow-Origin"
	for _, address := range []string{public.File, private.File} {
		got := rt.do(t, http.MethodGet, address, header("Origin", "https://anywhere.test"), header("Range", "bytes=0-1"))
		if got.Status != http.StatusPartialContent || got.Header.Get(allow) != "*" || !strings.Contains(strings.ToLower(got.Header.Get("Access-Control-Expose-Headers")), "content-range") {
			t.Errorf("a file: %d %v", got.Status, got.Header)
		}
		if got := rt.preflight(t, address, "https://anywhere.test", "GET", "if-none-match,range"); got.Status != http.StatusNoContent || got.Header.Get(allow) != "*" {
			t.Errorf("a file's preflight: %d %v", got.Status, got.Header)
		}
	}
	for _, got := range []answer{
		rt.preflight(t, "/media/create", "https://anywhere.test", "POST", "x-service-signature"),
		rt.do(t, http.MethodGet, "/media/get", key(one.Key), header("Origin", "https://anywhere.test")),
		rt.preflight(t, "/no/such/route", "https://anywhere.test", "POST", ""),
	} {
		if got.Header.Get(allow) != "" {
			t.Errorf("no origin is allowed, but %v", got.Header)
		}
	}
	all := w.runtime(t, func(o *options) { o.Server.Origins.Patterns = []string{"*"} })
	if got := all.preflight(t, "/media/create", "https://anywhere.test", "POST", "x-service-signature"); got.Header.Get(allow) != "*" {
		t.Errorf("all origins: %d %v", got.Status, got.Header)
	}
}

func TestCORS_NarrowNeedsAList(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{nil, {""}} {
		_, err := origin.New(origin.Config{Patterns: list, AccountLists: origin.AccountListsNarrow})
		if err == nil || !strings.Contains(err.Error(), "SERVICE_CORS_ACCOUNT_LISTS=narrow needs SERVICE_CORS_ORIGINS") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// A tenant's page works without the administrator of the installation: at every replica, for the
// account that lists it alone, and until the account no longer does.
func TestCORS_AnAccountListsItsOwnOrigins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listing, none, without := w.tenant(t, "listing"), w.tenant(t, "none"), w.tenant(t, "without")
	installation := func(o *options) { o.Server.Origins.Patterns = []string{"https://admin.example.org"} }
	replicas := []*runtime{w.runtime(t, installation), w.runtime(t, installation)}
	narrow := w.runtime(t, installation, func(o *options) { o.Server.Origins.AccountLists = origin.AccountListsNarrow })
	const allow, tenants, admins, preview = "Access-Control-Allow-Origin", "https://app.tenant.test", "https://admin.example.org", "https://a.preview.tenant.test"
	w.Change(t, listing, func(s *account.Spec) {
		s.Origins = []string{tenants, "https://*.preview.tenant.test"}
	})
	// Origins of a version that did not check them have no effect, and do not disable the others.
	if n := w.QueryInt(t, `WITH changed AS (UPDATE account SET cors_origins = cors_origins || '{*,https://app.tenant.test/path}' WHERE name = 'listing' RETURNING id)
		SELECT count(*) FROM changed`); n != 1 {
		t.Fatalf("%d accounts have invalid origins", n)
	}
	w.Change(t, none, func(s *account.Spec) { s.Origins = []string{} })
	asks := func(rt *runtime, from string) bool {
		return rt.preflight(t, "/media/create", from, "POST", "x-service-apikey").Header.Get(allow) == from
	}
	for i, rt := range replicas {
		wait.Until(t, fmt.Sprintf("replica %d knows the account's origins", i), func() bool { return asks(rt, tenants) })
		for name, tt := range map[string]struct {
			of       tenant
			from     string
			status   int
			readable bool
		}{
			"its page":                             {listing, tenants, http.StatusOK, true},
			"its preview":                          {listing, preview, http.StatusOK, true},
			"the installation's page":              {listing, admins, http.StatusForbidden, true},
			"a page of the service":                {listing, runtimetest.BaseURL, http.StatusOK, false},
			"another page":                         {listing, "https://evil.test", http.StatusForbidden, false},
			"an account with an empty list":        {none, admins, http.StatusForbidden, true},
			"the page of another account":          {without, tenants, http.StatusForbidden, true},
			"a page of no list, and no list":       {without, "https://evil.test", http.StatusOK, false},
			"the installation's page, and no list": {without, admins, http.StatusOK, true},
		} {
			got := rt.do(t, http.MethodGet, "/media/get", key(tt.of.Key), header("Origin", tt.from))
			if got.Status != tt.status || (got.Header.Get(allow) == tt.from) != tt.readable {
				t.Errorf("replica %d: %s: %d %q %s", i, name, got.Status, got.Header.Get(allow), got.Body)
			}
		}
		for of, from := range map[*tenant]string{&listing: admins, &without: tenants} {
			rt.do(t, http.MethodPost, "/media/create", key(of.Key), header("Origin", from), form(filePart("a.txt", []byte("x")))).Is(t, http.StatusForbidden, "replica %d: an upload by another page", i)
		}
		if !asks(rt, admins) || asks(rt, "https://evil.test") {
			t.Errorf("replica %d: the preflights are answered for other origins", i)
		}
	}
	w.Counts(t, 0, "items were stored", "SELECT count(*) FROM item")
	// The installation's list is a ceiling there.
	if asks(narrow, tenants) || !asks(narrow, admins) {
		t.Error("the narrow replica answers preflights of the account's origins")
	}
	for from, status := range map[string]int{tenants: http.StatusForbidden, admins: http.StatusForbidden} {
		narrow.do(t, http.MethodGet, "/media/get", key(listing.Key), header("Origin", from)).Is(t, status, "narrow, %s", from)
	}
	w.Change(t, listing, func(s *account.Spec) { s.Origins = nil })
	for i, rt := range replicas {
		wait.Until(t, fmt.Sprintf("replica %d forgets the account's origins", i), func() bool { return !asks(rt, tenants) })
		if got := rt.do(t, http.MethodGet, "/media/get", key(listing.Key), header("Origin", tenants)); got.Header.Get(allow) != "" {
			t.Errorf("replica %d: %v", i, got.Header)
		}
	}
}
