// Package typescript_test tests the TypeScript client with the shipped runtime, in Node and on a page of
// Chromium, and the sample web application that uses it.
package typescript_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// scriptTimeout is for all scenarios of one environment, and toolTimeout for a compiler. Other tests may run meanwhile.
const (
	scriptTimeout = 10 * time.Minute
	toolTimeout   = 5 * time.Minute
)

func TestClient_UploadsReadsAndRetries(t *testing.T) {
	t.Parallel()
	folder, browsers := buildClient(t), node.New(t, "hack/test/clients/tus")
	scripts := filepath.Join(folder, "scripts")
	copyFolder(t, filepath.Join(testenv.RepoRoot(t), "hack/test/clients/typescript"), scripts, "*.mjs")
	must(t, os.Symlink(browsers.Module(""), filepath.Join(scripts, "node_modules")))
	s := clienttest.New(t)
	options := map[string]any{"base": s.BaseURL, "limited": s.LimitedURL, "apiKey": s.APIKey, "remote": s.RemoteURL, "remoteFile": clienttest.RemoteFile, "photo": base64.StdEncoding.EncodeToString(clienttest.Photo)}

	t.Run("in Node", func(t *testing.T) {
		control := httptest.NewServer(s.Front.Control())
		t.Cleanup(control.Close)
		options["control"] = control.URL
		runScenarios(t, browsers, filepath.Join(scripts, "node.mjs"), options)
	})
	t.Run("the examples of the README run", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "clients/typescript/README.md"))
		must(t, err)
		blocks := strings.Split(string(text), "```js\n")[1:]
		const id = "[0-9a-f-]{36}"
		prints := []string{"sealed " + id + "\nphoto\\.jpg 7\n", "sealed " + id + " photo\\.jpg\\.gz\n"}
		if len(blocks) != len(prints) {
			t.Fatalf("the README has %d examples for Node, the test knows %d", len(blocks), len(prints))
		}
		home := t.TempDir()
		must(t, os.WriteFile(filepath.Join(home, "photo.jpg"), []byte("a photo"), 0o600))
		for i, block := range blocks {
			code, _, _ := strings.Cut(block, "```")
			script := filepath.Join(scripts, fmt.Sprintf("readme%d.mjs", i))
			must(t, os.WriteFile(script, []byte(code), 0o600))
			result := browsers.Start(t, scriptTimeout, home, []string{"URL=" + s.BaseURL, "API_KEY=" + s.APIKey}, script).Wait()
			if !regexp.MustCompile("^" + prints[i] + "$").MatchString(result.Stdout) {
				t.Errorf("the example %d printed %s%s, not %s", i+1, result.Stdout, result.Stderr, prints[i])
			}
		}
	})
	t.Run("on a page", func(t *testing.T) {
		bundle(t, browsers, filepath.Join(scripts, "page.mjs"), filepath.Join(folder, "page.js"))
		pages := http.NewServeMux()
		pages.Handle("POST /", s.Front.Control())
		pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `<!doctype html><meta charset="utf-8"><title>client</title><script type="module" src="/page.js"></script>`)
		})
		pages.HandleFunc("GET /page.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(folder, "page.js")) })
		server := httptest.NewServer(pages)
		t.Cleanup(server.Close)
		options["browser"], options["page"] = testenv.Program(t, "chromium"), strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		runScenarios(t, browsers, filepath.Join(scripts, "browser.mjs"), options)
	})
	t.Run("the generated types are those of the served document", func(t *testing.T) { checkTypes(t, s.BaseURL) })
	t.Run("the sample application uploads, resumes, seals, lists, deletes and restores", func(t *testing.T) { useSample(t, s, folder) })
}

// checkTypes generates the types of the document that the service serves, and compares.
func checkTypes(t *testing.T, base string) {
	t.Helper()
	response, err := http.Get(base + "/openapi.json")
	must(t, err)
	defer response.Body.Close()
	var served, committed map[string]any
	must(t, json.NewDecoder(response.Body).Decode(&served))
	clients := filepath.Join(testenv.RepoRoot(t), "clients")
	text, err := os.ReadFile(filepath.Join(clients, "openapi.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &committed))
	served["servers"] = committed["servers"] // the address of the service
	document, err := json.Marshal(served)
	must(t, err)
	if expected, err := json.Marshal(committed); err != nil || !bytes.Equal(document, expected) {
		t.Error("clients/openapi.json is not the document that the service serves: run `make generate`")
	}
	packages, folder := node.New(t, "clients/typescript"), t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "openapi.json"), document, 0o600))
	testenv.Run(t, toolTimeout, folder, "node", packages.Module("openapi-typescript/bin/cli.js"), "openapi.json", "--output", "schema.ts")
	generated, err := os.ReadFile(filepath.Join(folder, "schema.ts"))
	must(t, err)
	expected, err := os.ReadFile(filepath.Join(clients, "typescript/src/schema.ts"))
	must(t, err)
	if !bytes.Equal(generated, expected) {
		t.Error("clients/typescript/src/schema.ts differs from the document that the service serves: run `make client-types`")
	}
}

// buildClient compiles the package, with types.ts and react.tsx, and returns its folder.
func buildClient(t *testing.T) string {
	t.Helper()
	return clienttest.BuildTypeScript(t, "hack/test/clients/typescript/types.ts", "hack/test/clients/typescript/react.tsx")
}

// The examples are compiled as in an application: those in TypeScript with the compiler options of the client, those in
// JavaScript with the types of Node and without strict, which process.env does not pass. The example for browsers once did
// not compile: it had no import, and passed a file that can be missing.
func TestReadme_ExamplesHaveTheTypesOfTheClient(t *testing.T) {
	t.Parallel()
	client, tools := buildClient(t), node.New(t, "hack/test/clients/tus")
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "clients/typescript/README.md"))
	must(t, err)
	var config struct{ CompilerOptions map[string]any }
	own, err := os.ReadFile(filepath.Join(client, "tsconfig.json"))
	must(t, err)
	must(t, json.Unmarshal(own, &config))
	home := filepath.Join(client, "examples")
	compiler := node.New(t, "clients/typescript").Module("typescript/bin/tsc")
	for language, more := range map[string]map[string]any{
		"ts": {},
		"js": {"allowJs": true, "checkJs": true, "strict": false, "exactOptionalPropertyTypes": false, "types": []string{"node"}, "typeRoots": []string{tools.Module("@types")}},
	} {
		t.Run(language, func(t *testing.T) {
			folder := filepath.Join(home, language)
			must(t, os.MkdirAll(folder, 0o755))
			blocks := strings.Split(string(text), "```"+language+"\n")[1:]
			if len(blocks) == 0 {
				t.Errorf("the README has no example in %s", language)
			}
			for i, block := range blocks {
				code, _, _ := strings.Cut(block, "```")
				must(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("example%d.%s", i, language)), []byte(code), 0o600))
			}
			options := maps.Clone(config.CompilerOptions)
			maps.Copy(options, more)
			maps.Copy(options, map[string]any{"noEmit": true, "rootDir": nil, "outDir": nil, "declaration": false, "declarationMap": false, "sourceMap": false,
				"paths": map[string][]string{"@mediastack/client": {filepath.Join(client, "dist/index.d.ts")}}})
			tsconfig, err := json.Marshal(map[string]any{"compilerOptions": options, "include": []string{"."}})
			must(t, err)
			must(t, os.WriteFile(filepath.Join(folder, "tsconfig.json"), tsconfig, 0o600))
			// The examples are modules, as their files are in an application of this type.
			must(t, os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type": "module"}`), 0o600))
			testenv.Run(t, toolTimeout, folder, "node", compiler)
		})
	}
}

// bundle writes a script for browsers.
func bundle(t *testing.T, packages *node.Packages, script, out string) {
	t.Helper()
	testenv.Run(t, toolTimeout, filepath.Dir(script), packages.Module(".bin/esbuild"), script, "--bundle", "--format=esm", "--outfile="+out, "--log-level=error")
}

// runScenarios runs a script; each scenario that it prints becomes a test.
func runScenarios(t *testing.T, packages *node.Packages, script string, options map[string]any) {
	t.Helper()
	text, err := json.Marshal(options)
	must(t, err)
	result := packages.Run(t, scriptTimeout, script, string(text))
	count := 0
	for line := range strings.Lines(result.Stdout) {
		var one struct {
			Scenario, Problem string
			Took              float64 // seconds
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Scenario == "" {
			t.Fatalf("%s printed %s", script, line)
		}
		count++
		t.Run(one.Scenario, func(t *testing.T) {
			t.Logf("%.1f s", one.Took)
			if one.Problem != "" {
				t.Error(one.Problem)
			}
		})
	}
	if result.Code != 0 || count == 0 {
		t.Fatalf("%s ran %d scenarios and ended with %d: %s", script, count, result.Code, result.Stderr)
	}
}

// copyFolder copies the files of a folder that match.
func copyFolder(t *testing.T, from, to, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, pattern))
	must(t, err)
	if len(files) == 0 {
		t.Fatal(fmt.Errorf("%s has no %s", from, pattern))
	}
	must(t, os.MkdirAll(to, 0o755))
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o600))
	}
}

var must = check.NoError
