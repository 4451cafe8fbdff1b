package oauthhttp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// A body that stalled or was truncated was answered with 413, as if it were too large.
func TestRegister_DistinguishesIncompleteFromOversizedBody(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	rt := w.Replica(t, func(o *webtest.Options) { o.Stall = 3 * time.Second })
	for name, tt := range map[string]struct {
		announced int
		body      string
		cut       bool // the client sends nothing more
		status    int
		detail    string
	}{
		"stalled":         {100, `{"client_name"`, false, http.StatusRequestTimeout, "did not arrive in time"},
		"nothing arrives": {100, ``, false, http.StatusRequestTimeout, "did not arrive in time"},
		"cut short":       {100, `{"client_name"`, true, http.StatusBadRequest, "incomplete"},
		"too long":        {9000, strings.Repeat(" ", 9000), false, http.StatusRequestEntityTooLarge, "8 KiB"},
		"not an object":   {1, `x`, false, http.StatusBadRequest, "JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := announce(t, rt, "/oauth/register", "application/json", tt.announced, tt.body, tt.cut) //nolint:bodyclose // the test closes it
			var body map[string]string
			must(t, json.NewDecoder(response.Body).Decode(&body))
			if response.StatusCode != tt.status || body["error"] != "invalid_client_metadata" || !strings.Contains(body["error_description"], tt.detail) || len(body) != 2 {
				t.Errorf("%d %v, want %d", response.StatusCode, body, tt.status)
			}
			if response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the answer's header: %v", response.Header)
			}
		})
	}
}

// announce posts a body, of which it announces another length, and returns the response. If it is cut, the client sends nothing more.
func announce(t *testing.T, rt *webtest.Replica, path, contentType string, length int, body string, cut bool) *http.Response {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: media.test\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, contentType, length, body)
	must(t, err)
	if cut {
		must(t, conn.(*net.TCPConn).CloseWrite())
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestForm_ThatStallsIsNotCalledTooLong(t *testing.T) {
	t.Parallel()
	rt := webtest.NewWorld(t).Replica(t, func(o *webtest.Options) { o.Stall = 3 * time.Second })
	for name, tt := range map[string]struct {
		announced int
		body      string
		detail    string
	}{"stalled": {100, "grant_type=", "did not arrive in time"}, "too long": {9000, strings.Repeat("x", 9000), "8 KiB"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := announce(t, rt, "/oauth/token", "application/x-www-form-urlencoded", tt.announced, tt.body, false) //nolint:bodyclose // the test closes it
			var body map[string]string
			must(t, json.NewDecoder(response.Body).Decode(&body))
			if response.StatusCode != http.StatusBadRequest || body["error"] != "invalid_request" || !strings.Contains(body["error_description"], tt.detail) {
				t.Errorf("%d %v", response.StatusCode, body)
			}
		})
	}
}

func TestRegister_AcceptsValidMetadataOnly(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	b := w.Replica(t).Browser(t)
	many := func(n int) []string {
		var uris []string
		for i := range n {
			uris = append(uris, "https://app.test/"+strings.Repeat("x", i+1))
		}
		return uris
	}
	status, made := b.JSON("/oauth/register", map[string]any{"client_name": "Cursor\u202e\n  x", "client_uri": "javascript:alert(1)", "logo_uri": "https://evil.test/", "token_endpoint_auth_method": "client_secret_basic",
		"redirect_uris": []string{"cursor://anysphere.cursor-mcp/oauth/callback", "http://evil.test/", "http://localhost:8080/cb", "other://x"}})
	for _, name := range []string{"\u3164", "\u2800", "\u115f\u1160", "\uffa0 \ufe0f"} {
		if _, made := b.JSON("/oauth/register", map[string]any{"client_name": name, "redirect_uris": many(1)}); made["client_name"] != "app.test" {
			t.Errorf("%q is registered as %v", name, made["client_name"])
		}
	}
	for _, website := range []string{"https://a;sandbox/", "https://x,y/", "https://*.evil.test/"} {
		if _, made := b.JSON("/oauth/register", map[string]any{"client_name": "x", "client_uri": website, "redirect_uris": many(1)}); made["client_id"] == nil || made["client_uri"] != nil {
			t.Errorf("%s is a website: %v", website, made)
		}
	}
	if status != http.StatusCreated || made["client_name"] != "Cursor x" || made["token_endpoint_auth_method"] != "none" || len(made["redirect_uris"].([]any)) != 2 || made["client_secret"] != nil || made["client_uri"] != nil || made["logo_uri"] != nil {
		t.Errorf("%d %v", status, made)
	}
	before := w.QueryInt(t, "SELECT count(*) FROM oauth_client")
	for name, tt := range map[string]struct {
		sent   any
		status int
		err    string
	}{
		"no redirect":          {map[string]any{"client_name": "x"}, 400, "invalid_redirect_uri"},
		"none that is allowed": {map[string]any{"redirect_uris": []string{"http://evil.test/", "javascript:alert(1)"}}, 400, "invalid_redirect_uri"},
		"eleven":               {map[string]any{"redirect_uris": many(11)}, 400, "invalid_redirect_uri"},
		"a list":               {[]int{1}, 400, "invalid_client_metadata"},
		"another type":         {map[string]any{"redirect_uris": "https://app.test/"}, 400, "invalid_client_metadata"},
		"more than 8 KiB":      {map[string]any{"client_name": strings.Repeat("x", 9<<10), "redirect_uris": many(1)}, 413, "invalid_client_metadata"},
	} {
		if status, response := b.JSON("/oauth/register", tt.sent); status != tt.status || response["error"] != tt.err {
			t.Errorf("%s: %d %v", name, status, response)
		}
	}
	if after := w.QueryInt(t, "SELECT count(*) FROM oauth_client"); after != before {
		t.Errorf("%d applications were registered by that", after-before)
	}
	if _, again := b.JSON("/oauth/register", map[string]any{"client_name": "Cursor x", "redirect_uris": []string{"http://localhost:8080/cb", "cursor://anysphere.cursor-mcp/oauth/callback"}}); again["client_id"] != made["client_id"] {
		t.Error("the same words gave another id")
	}
}

// Forms and registrations have the time of documents, also where bodies without a credential have no limit.
func TestBodies_OfLoginsHaveTheTimeOfADocument(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	rt := w.Replica(t, func(o *webtest.Options) { o.Document = 100 * time.Millisecond })
	for path, contentType := range map[string]string{"/oauth/register": "application/json", "/oauth/token": "application/x-www-form-urlencoded"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
			must(t, err)
			defer func() { _ = conn.Close() }()
			must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: media.test\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", path, contentType)
			must(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode < http.StatusBadRequest || response.StatusCode >= http.StatusInternalServerError {
				t.Errorf("a body that does not come was answered %d", response.StatusCode)
			}
		})
	}
}
