package tus_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// block returns the first block of code in a language on a page of the documentation.
func block(t *testing.T, page, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", page))
	must(t, err)
	_, code, _ := strings.Cut(string(text), "```"+language+"\n")
	code, _, found := strings.Cut(code, "\n```")
	if !found {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return code
}

func TestReferenceExample_UploadsInChunks(t *testing.T) {
	t.Parallel()
	script := block(t, "reference/resumable.md", "sh TestReferenceExample_UploadsInChunks")
	s := newService(t, "https://app.example.org")
	file := make([]byte, 3<<20)
	_, _ = rand.Read(file)
	folder := t.TempDir()
	path := filepath.Join(folder, "Ferien 🏖.bin")
	must(t, os.WriteFile(path, file, 0o600))
	out := testenv.Run(t, clientTimeout, folder, "env", "URL="+s.base, "KEY=x-service-apikey: "+s.apiKey, "FILE="+path, "bash", "-euo", "pipefail", "-c", script)
	var document struct{ OriginalFileName, Caption, File string }
	if err := json.Unmarshal([]byte(out), &document); err != nil || document.OriginalFileName != "Ferien 🏖.bin" || document.Caption != "Größe" {
		t.Fatalf("it printed %s", out)
	}
	if status, body := s.do(t, http.MethodGet, document.File, nil); status != http.StatusOK || sha256.Sum256(body) != sha256.Sum256(file) {
		t.Errorf("the file: %d, %d bytes", status, len(body))
	}
}

// The guide's server and page, as they are printed there, in a real browser.
func TestBrowserGuide_UploadsAndSealsAFile(t *testing.T) {
	t.Parallel()
	packages, folder := node.New(t, "hack/test/clients/tus"), t.TempDir()
	for name, language := range map[string]string{"server.mjs": "js", "page.html": "html"} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(block(t, "guides/upload-from-a-browser.md", language)), 0o600))
	}
	file := make([]byte, 1<<20)
	_, _ = rand.Read(file)
	path := filepath.Join(folder, "photo.bin")
	must(t, os.WriteFile(path, file, 0o600))
	port, failing := testenv.FreePort(t), testenv.FreePort(t)
	address := fmt.Sprintf("http://localhost:%d", port)
	s := newService(t, "http://localhost:*")
	guide := func(apiKey string, port int) servers.Spec {
		return servers.Spec{
			Name: "the guide's server", Path: testenv.Program(t, "node"), Args: []string{filepath.Join(folder, "server.mjs")}, LogFile: filepath.Join(folder, "server.log"),
			Env:   []string{"URL=" + s.base, "API_KEY=" + apiKey, fmt.Sprintf("PORT=%d", port)},
			Ready: servers.Answers(fmt.Sprintf("http://localhost:%d", port)),
		}
	}
	_, err := testenv.Group(t).Start(t.Context(), guide(s.apiKey, port))
	must(t, err)
	options, err := json.Marshal(map[string]any{"browser": testenv.Program(t, "chromium"), "page": address, "file": path})
	must(t, err)
	result := packages.Run(t, clientTimeout, packages.Script(t, "guide.mjs"), string(options))
	if want := fmt.Sprintf("sealed photo.bin, %d bytes\n", len(file)); result.Stdout != want {
		t.Fatalf("the page says %q, want %q: %s", result.Stdout, want, result.Stderr)
	}
	// The page shows the error of a failed request, so that it has to be JSON.
	_, err = testenv.Group(t).Start(t.Context(), guide("msk_wrong", failing))
	must(t, err)
	status, body := s.do(t, http.MethodPost, fmt.Sprintf("http://localhost:%d/signature", failing), nil)
	if want := `{"error": "the server failed, see its log"}`; status != http.StatusInternalServerError || string(body) != want {
		t.Errorf("a failed request: %d %s, want %s", status, body, want)
	}
	status, body = s.do(t, http.MethodGet, s.base+"/media/get?group=holidays", s.key())
	var listed []struct{ OriginalFileName, File, Ref string }
	if err := json.Unmarshal(body, &listed); err != nil || status != http.StatusOK || len(listed) != 1 || listed[0].Ref != "user 12" {
		t.Fatalf("the list: %d %s", status, body)
	}
	if status, body := s.do(t, http.MethodGet, listed[0].File, nil); status != http.StatusOK || sha256.Sum256(body) != sha256.Sum256(file) {
		t.Errorf("the file: %d, %d bytes", status, len(body))
	}
}
