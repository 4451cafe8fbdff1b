// Package tus_test tests uploads of real clients to the shipped runtime: tus-js-client in
// Node and on a page, and Uppy on a page. Each is cut in the middle of a PATCH.
package tus_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
	"mediastack.dev/runtime/account"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	// clientTimeout is for one upload, the start of a browser included.
	clientTimeout = 5 * time.Minute
	fileName      = "Ferien 🏖.bin"
)

func TestClients_ResumeAfterACutConnection(t *testing.T) {
	t.Parallel()
	file := make([]byte, 24<<20)
	_, _ = rand.Read(file)
	packages := node.New(t, "hack/test/clients/tus")
	path := filepath.Join(t.TempDir(), "file.bin")
	must(t, os.WriteFile(path, file, 0o600))
	page := httptest.NewServer(newPage(t, packages, file))
	t.Cleanup(page.Close)
	s := newService(t, page.URL)
	browser := testenv.Program(t, "chromium")

	for _, client := range []struct {
		name, script string
		options      map[string]any
	}{
		{"tus-js-client in Node", "node.mjs", map[string]any{"file": path, "headers": s.key()}},
		{"tus-js-client in Node, in pieces, begun again", "node.mjs", map[string]any{"file": path, "headers": s.key(), "chunkSize": 7 << 20, "giveUpAfter": 9 << 20}},
		{"tus-js-client on a page", "browser.mjs", map[string]any{"browser": browser, "page": page.URL, "how": "withTus", "headers": s.signature(t)}},
		{"Uppy on a page", "browser.mjs", map[string]any{"browser": browser, "page": page.URL, "how": "withUppy", "chunkSize": 7 << 20, "headers": s.signature(t)}},
	} {
		for name, broken := range map[string]func(){
			"goes on at the other replica":                       s.switchReplica,
			"goes on there while the first one holds the upload": s.switchAndKeep,
			"goes on after both were killed":                     func() { s.killBoth(t) },
		} {
			t.Run(client.name+" "+name, func(t *testing.T) {
				s.proxy.setTarget(s.replicas[0].Addr)
				s.proxy.cutAfter(10<<20+12345, broken)
				got := s.upload(t, packages, client.script, client.options)
				if !s.proxy.wasCut() {
					t.Error("the upload was not cut off")
				}
				if took := s.proxy.received(s.replicas[1].Addr); s.proxy.target == s.replicas[1].Addr && took < 1<<20 {
					t.Errorf("the other replica was sent %d bytes", took)
				}
				s.check(t, got, file)
			})
		}
	}
}

// result is what a client prints.
type result struct {
	URL      string `json:"url"`
	ID       string `json:"id"`
	Document string `json:"document"`
}

// upload runs a client to its end.
func (s *service) upload(t *testing.T, packages *node.Packages, script string, options map[string]any) result {
	t.Helper()
	all := map[string]any{"endpoint": s.base + "/media/create/resumable", "filename": fileName, "retryDelays": []int{0, 100, 300, 500, 1000, 2000, 3000, 5000}}
	for name, value := range options {
		all[name] = value
	}
	text, err := json.Marshal(all)
	must(t, err)
	var printed result
	ended := packages.Run(t, clientTimeout, packages.Script(t, script), string(text))
	if ended.Code != 0 || json.Unmarshal([]byte(ended.Stdout), &printed) != nil {
		t.Fatalf("the client ended with %d and printed %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
	}
	return printed
}

// check compares what a client was answered with what is there.
func (s *service) check(t *testing.T, got result, file []byte) {
	t.Helper()
	var document struct {
		MediaID, OriginalFileName, File string
		Size                            int64
		Temp                            bool
	}
	if err := json.Unmarshal([]byte(got.Document), &document); err != nil {
		t.Fatalf("the document is %q: %v", got.Document, err)
	}
	if got.ID == "" || document.MediaID != got.ID || !strings.HasSuffix(got.URL, "/"+got.ID) || document.OriginalFileName != fileName || document.Size != int64(len(file)) || !document.Temp {
		t.Errorf("the client was answered %+v", got)
	}
	status, body := s.do(t, http.MethodGet, document.File, nil)
	if status != http.StatusOK || sha256.Sum256(body) != sha256.Sum256(file) {
		t.Errorf("the file: %d, %d bytes, SHA-256 %x", status, len(body), sha256.Sum256(body))
	}
	if status, body := s.do(t, http.MethodPost, s.base+"/media/seal/"+got.ID, s.key()); status != http.StatusOK {
		t.Errorf("seal: %d %s", status, body)
	}
}

// service is two runtimes behind one address.
type service struct {
	proxy    *flakyProxy
	base     string
	apiKey   string
	replicas []*servers.Runtime
}

func newService(t *testing.T, origin string) *service {
	t.Helper()
	database, access := testenv.Postgres(t), testenv.S3(t)
	tenants, err := provision.Accounts(t.Context(), database, access,
		account.Spec{Namespace: "clients", Name: "one", MaxStorage: 4 << 30, MaxUploadSize: 1 << 30})
	must(t, err)
	s := &service{proxy: newFlakyProxy(t), apiKey: tenants[0].APIKey}
	s.base = "http://" + s.proxy.listener.Addr().String()
	for range 2 {
		s.replicas = append(s.replicas, testenv.Runtime(t, servers.RuntimeConfig{BaseURL: s.base, Secret: strings.Repeat("ab", 32),
			Stores: servers.StoreSettings(database, access), Env: []string{"SERVICE_CORS_ORIGINS=" + origin}}))
	}
	s.proxy.setTarget(s.replicas[0].Addr)
	return s
}

func (s *service) key() map[string]string { return map[string]string{"x-service-apikey": s.apiKey} }

// signature asks for a permission to upload, as a page's server does.
func (s *service) signature(t *testing.T) map[string]string {
	t.Helper()
	var made struct{ Signature string }
	if status, body := s.do(t, http.MethodPost, s.base+"/media/signature/create", s.key()); status != http.StatusOK || json.Unmarshal(body, &made) != nil {
		t.Fatalf("signature: %d %s", status, body)
	}
	return map[string]string{"x-service-signature": made.Signature}
}

func (s *service) do(t *testing.T, method, address string, header map[string]string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	must(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, body
}

// killBoth kills both runtimes and starts them again.
func (s *service) killBoth(t *testing.T) {
	for _, one := range s.replicas {
		one.Kill()
	}
	for _, one := range s.replicas {
		if err := one.Restart(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// switchReplica directs clients to the second replica. The proxy's lock is held.
func (s *service) switchReplica() { s.proxy.target = s.replicas[1].Addr }

// switchAndKeep does so while the first replica still waits for the rest of the request that was cut.
func (s *service) switchAndKeep() {
	s.proxy.keep = true
	s.switchReplica()
}

// newPage serves the page, which is of another origin than the service.
func newPage(t *testing.T, packages *node.Packages, file []byte) http.Handler {
	t.Helper()
	script := packages.Script(t, "page.mjs")
	bundle := filepath.Join(filepath.Dir(script), "page.js")
	testenv.Run(t, time.Minute, filepath.Dir(script), packages.Module(".bin/esbuild"), script, "--bundle", "--format=iife", "--outfile="+bundle, "--log-level=error")
	content, err := os.ReadFile(bundle)
	must(t, err)
	pages := http.NewServeMux()
	for path, content := range map[string][]byte{"/{$}": []byte(`<!doctype html><meta charset="utf-8"><title>upload</title><script src="/page.js"></script>`), "/page.js": content, "/file": file} {
		pages.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, strings.NewReplacer("/{$}", "index.html", "/", "").Replace(path), time.Time{}, bytes.NewReader(content))
		})
	}
	return pages
}

var must = check.NoError
