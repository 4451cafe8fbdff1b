// Package react_test tests the React entry of the TypeScript client in Chromium, with the shipped runtime.
package react_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// stepTimeout is for all that the browser does. Other tests may run meanwhile.
const stepTimeout = 5 * time.Minute

var must = check.NoError

// The page is in StrictMode, in which React mounts each component twice.
func TestReact_UploadsListsAndShowsPictures(t *testing.T) {
	t.Parallel()
	client, tools, checks := clienttest.BuildTypeScript(t), node.New(t, "hack/test/clients/tus"), node.New(t, "hack/test/browser")
	s := clienttest.New(t)
	folder := filepath.Dir(tools.Script(t, "page.mjs"))
	for _, name := range []string{"page.jsx", "browser.mjs"} {
		text, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	bundle := filepath.Join(folder, "react.js")
	testenv.Run(t, stepTimeout, folder, tools.Module(".bin/esbuild"), "page.jsx", "--bundle", "--format=esm", "--jsx=automatic", "--outfile="+bundle, "--log-level=error",
		"--alias:@mediastack/client="+filepath.Join(client, "dist"), "--alias:react="+filepath.Join(client, "node_modules/react"), "--alias:react-dom="+filepath.Join(client, "node_modules/react-dom"))

	pages := http.NewServeMux()
	pages.Handle("POST /", s.Front.Control())
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>media</title><link rel="icon" href="data:,"><main id="root"></main><script type="module" src="/react.js"></script></html>`)
	})
	pages.HandleFunc("GET /react.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, bundle) })
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)

	options, err := json.Marshal(map[string]any{"browser": testenv.Program(t, "chromium"), "page": strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "base": s.BaseURL,
		"apiKey": s.APIKey, "axe": checks.Module("axe-core/axe.min.js"), "scratch": t.TempDir()})
	must(t, err)
	result := tools.Run(t, stepTimeout, filepath.Join(folder, "browser.mjs"), string(options))
	count := 0
	for line := range strings.Lines(result.Stdout) {
		var one struct{ Scenario, Problem string }
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Scenario == "" {
			t.Fatalf("the browser printed %s", line)
		}
		count++
		t.Run(one.Scenario, func(t *testing.T) {
			if one.Problem != "" {
				t.Error(one.Problem)
			}
		})
	}
	if result.Code != 0 || count == 0 {
		t.Fatalf("%d scenarios ran, and the script ended with %d: %s", count, result.Code, result.Stderr)
	}
}
