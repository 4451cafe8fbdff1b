package apidocs_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/apidocs"
)

var must = check.NoError

func newServer(t *testing.T) *httptest.Server {
	t.Helper()
	reference, err := apidocs.New()
	must(t, err)
	router := chi.NewRouter()
	reference.Mount(router)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return server
}

// answer is a response and its body.
type answer struct {
	*http.Response
	body []byte
}

func ask(t *testing.T, method, url string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return answer{response, body}
}

var (
	linked     = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	inlineCode = regexp.MustCompile(`(?i)<script>|<script [^>]*>[^<]|<style|style=|\son\w+=`)
)

func TestPage_HasHeadersOfAPage(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	got := ask(t, http.MethodGet, server.URL+"/docs")
	if got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache", "Set-Cookie": "",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	policy := strings.Split(got.Header.Get("Content-Security-Policy"), "; ")
	for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !slices.Contains(policy, directive) {
			t.Errorf("the policy lacks %s: %q", directive, policy)
		}
	}
	if code := inlineCode.Find(got.body); code != nil {
		t.Errorf("the policy blocks %s", code)
	}
	for _, match := range linked.FindAllSubmatch(got.body, -1) {
		if url := string(match[1]); url != "data:," && (strings.Contains(url, ":") || strings.HasPrefix(url, "/")) {
			t.Errorf("%s is not relative: it leads elsewhere, or fails behind a path prefix", url)
		}
	}
	if again := ask(t, http.MethodGet, server.URL+"/docs", "If-None-Match", got.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || len(again.body) != 0 {
		t.Errorf("with its ETag: %d", again.StatusCode)
	}
	if head := ask(t, http.MethodHead, server.URL+"/docs"); head.StatusCode != http.StatusOK || head.ContentLength != int64(len(got.body)) {
		t.Errorf("HEAD: %d, %d bytes", head.StatusCode, head.ContentLength)
	}
}

func TestAssets_AreCachedByTheirContent(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	seen := 0
	for _, match := range linked.FindAllStringSubmatch(string(ask(t, http.MethodGet, server.URL+"/docs").body), -1) {
		url := match[1]
		if !strings.HasPrefix(url, "docs/assets/") {
			continue
		}
		seen++
		got := ask(t, http.MethodGet, server.URL+"/"+url)
		header := got.Header
		if got.StatusCode != http.StatusOK || header.Get("Cache-Control") != "public, max-age=31536000, immutable" || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", url, got.StatusCode, header)
		}
		if again := ask(t, http.MethodGet, server.URL+"/"+url, "If-None-Match", header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s with its ETag: %d", url, again.StatusCode)
		}
		other, _, _ := strings.Cut(url, "?")
		if got := ask(t, http.MethodGet, server.URL+"/"+other+"?v=0123456789abcdef"); got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s with another version's hash: %d %s", other, got.StatusCode, got.Header.Get("Cache-Control"))
		}
	}
	if seen != 3 {
		t.Errorf("the page has %d assets", seen)
	}
	for _, licence := range []string{"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} {
		if got := ask(t, http.MethodGet, server.URL+"/docs/assets/"+licence); got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s", licence, got.StatusCode, got.Header.Get("Content-Type"))
		}
	}
}

func TestRoutes_RejectOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPost, "/docs", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/docs/assets/start.js", http.StatusMethodNotAllowed},
		{http.MethodGet, "/docs/assets/index.html", http.StatusNotFound},
		{http.MethodGet, "/docs/assets/VENDORED", http.StatusNotFound},
		{http.MethodGet, "/docs/assets/..%2findex.html", http.StatusNotFound},
		{http.MethodGet, "/docs/assets/", http.StatusNotFound},
		{http.MethodGet, "/docs/elsewhere", http.StatusNotFound},
	} {
		if got := ask(t, c.method, server.URL+c.path); got.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got.StatusCode, c.status)
		}
	}
	got := ask(t, http.MethodGet, server.URL+"/docs/")
	if location, err := got.Location(); err != nil || got.StatusCode != http.StatusPermanentRedirect || location.Path != "/docs" {
		t.Errorf("with a trailing slash: %d %v %v", got.StatusCode, location, err)
	}
}

func TestVendoredFiles_AreThoseOfTheRelease(t *testing.T) {
	t.Parallel()
	const folder = "swagger-ui"
	record, err := os.ReadFile(filepath.Join(folder, "VENDORED"))
	must(t, err)
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "hack", "api-viewer.sh"))
	must(t, err)
	lines := bufio.NewScanner(bytes.NewReader(record))
	var named []string
	for n := 0; lines.Scan(); n++ {
		sum, name, isSum := strings.Cut(lines.Text(), "  ./")
		if !isSum {
			if n == 1 && !bytes.Contains(script, []byte("\nintegrity="+lines.Text()+"\n")) {
				t.Error("hack/api-viewer.sh pins another release: run `make api-viewer`")
			}
			continue
		}
		named = append(named, name)
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(content)) != sum {
			t.Errorf("%s is not what was vendored (%v): run `make api-viewer`", name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != len(named)+1 || len(named) < 5 {
		t.Errorf("there are %v besides %v: %v", files, named, err)
	}
}

// The viewer was copied into the heap of every runtime, 1.8 MiB.
func TestReference_CopiesNoEmbeddedFile(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := apidocs.New()
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || allocated > 512<<10 {
		t.Errorf("the reference takes %d bytes, %v", allocated, err)
	}
}
