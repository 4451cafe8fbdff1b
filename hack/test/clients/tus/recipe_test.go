package tus_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// The recipe of the reference kept no signature: after a reload its page had another one, with which the upload was not
// found. It began again at 0, and the room of the first upload was held for a day.
func TestUppyRecipe_ContinuesAfterAReload(t *testing.T) {
	t.Parallel()
	file := make([]byte, 24<<20)
	_, _ = rand.Read(file)
	packages := node.New(t, "hack/test/clients/tus")
	script := packages.Script(t, "recipe-page.mjs")
	folder := filepath.Dir(script)
	must(t, os.WriteFile(filepath.Join(folder, "recipe.mjs"), []byte(block(t, "reference/resumable.md", "js TestUppyRecipe_ContinuesAfterAReload")), 0o600))
	bundle := filepath.Join(folder, "recipe.js")
	testenv.Run(t, time.Minute, folder, packages.Module(".bin/esbuild"), script, "--bundle", "--format=iife", "--outfile="+bundle, "--log-level=error")

	var s *service
	var signatures atomic.Int64
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><meta charset="utf-8"><title>upload</title><script src="/recipe.js"></script>`)
	})
	pages.HandleFunc("GET /recipe.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, bundle) })
	pages.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "file", time.Time{}, bytes.NewReader(file))
	})
	pages.HandleFunc("POST /signature", func(w http.ResponseWriter, r *http.Request) {
		if bytes := r.FormValue("of"); bytes != "" {
			_, _ = io.WriteString(w, s.capability(t, `{"maxBytes": `+bytes+`}`))
			return
		}
		signatures.Add(1)
		_, _ = io.WriteString(w, s.capability(t, `{"count": 1, "maxBytes": 50000000}`))
	})
	page := httptest.NewServer(pages)
	t.Cleanup(page.Close)
	s = newService(t, page.URL)

	options, err := json.Marshal(map[string]any{"browser": testenv.Program(t, "chromium"), "page": page.URL, "endpoint": s.base + "/media/create/resumable", "filename": fileName, "chunkSize": 5 << 20, "retryDelays": []int{0, 100, 300, 500, 1000, 2000, 3000, 5000}})
	must(t, err)
	ended := packages.Run(t, clientTimeout, packages.Script(t, "recipe-browser.mjs"), string(options))
	var printed struct {
		result
		Error       string
		Before      int
		After, Kept []string
		Shown       []struct{ Message, Type string }
	}
	if err := json.Unmarshal([]byte(ended.Stdout), &printed); err != nil || ended.Code != 0 {
		t.Fatalf("the browser ended with %d and printed %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
	}
	if printed.Error != "" || printed.Before < 5<<20 || len(printed.After) < 2 || printed.After[0] != "HEAD" || strings.Contains(strings.Join(printed.After, ","), "POST") || printed.After[1] == "PATCH 0" {
		t.Errorf("after %d bytes and a reload it requested %v: %s", printed.Before, printed.After, printed.Error)
	}
	if n := signatures.Load(); n != 1 {
		t.Errorf("%d signatures were requested", n)
	}
	if len(printed.Kept) != 0 {
		t.Errorf("afterwards %v are kept", printed.Kept)
	}
	// Uppy once showed the method, the URL and the whole answer instead.
	if len(printed.Shown) == 0 || printed.Shown[len(printed.Shown)-1].Type != "error" || !strings.Contains(printed.Shown[len(printed.Shown)-1].Message, "100 bytes") || strings.Contains(printed.Shown[len(printed.Shown)-1].Message, "{") {
		t.Errorf("of an upload that is not permitted it shows %+v", printed.Shown)
	}
	s.check(t, printed.result, file)
	if status, body := s.do(t, http.MethodGet, s.base+"/media/uploads", s.key()); status != http.StatusOK || strings.TrimSpace(string(body)) != "[]" {
		t.Errorf("uploads are running: %d %s", status, body)
	}
}

// capability asks for an upload capability, as a page's server does.
func (s *service) capability(t *testing.T, body string) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/media/signature/create", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	request.Header.Set("x-service-apikey", s.apiKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var made struct{ Signature string }
	if err := json.NewDecoder(response.Body).Decode(&made); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("a capability: %d %v", response.StatusCode, err)
	}
	return made.Signature
}
