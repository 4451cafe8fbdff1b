// Package examples_test runs the sample pages of docs/examples/pictures with a dev stack, in Chromium.
package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	source = "docs/examples/pictures"
	// stepTimeout is for the start of the stack, the build of the application, or all that the browser does. Other tests may run meanwhile.
	stepTimeout = 8 * time.Minute
)

var must = check.NoError

// stack is a dev stack, as stack.json describes it.
type stack struct {
	BaseURL string `json:"baseURL"`
	APIKey  string `json:"apiKey"`
	Runtime string `json:"runtime"`
	Env     string `json:"env"`
}

// The commands of the README.md, and each page on screens of two widths and densities.
func TestPictures_AreThoseThatTheBrowserNeeds(t *testing.T) {
	t.Parallel()
	packages, browsers := node.New(t, source), node.New(t, "hack/test/browser")
	folder := copyExample(t, packages)
	s := startStack(t)
	prepare(t, s, folder)

	next := filepath.Join(folder, "node_modules/next/dist/bin/next")
	testenv.Run(t, stepTimeout, folder, "env", "NEXT_TELEMETRY_DISABLED=1", testenv.Program(t, "node"), next, "build")
	pages := map[string]string{
		"html":  serve(t, folder, s.BaseURL, s.APIKey, "html.mjs"),
		"unpic": serve(t, folder, s.BaseURL, s.APIKey, "unpic.mjs"),
		"next":  serve(t, folder, s.BaseURL, s.APIKey, next, "start", "--hostname", "localhost"),
	}
	options, err := json.Marshal(map[string]any{
		"browser": testenv.Program(t, "chromium"), "pages": pages, "expiring": serve(t, folder, startExpiring(t, s), s.APIKey, "html.mjs"),
	})
	must(t, err)
	script := filepath.Join(filepath.Dir(browsers.Script(t, "fixture.mjs")), "pictures.mjs")
	text, err := os.ReadFile("pictures.mjs")
	must(t, err)
	must(t, os.WriteFile(script, text, 0o600))
	result := browsers.Run(t, stepTimeout, script, string(options))
	if want := "html\nnext\nunpic\nimage/webp\nimage/jpeg\nexpiry\n"; result.Code != 0 || result.Stdout != want {
		t.Fatalf("the script ended with %d and printed %s%s", result.Code, result.Stdout, result.Stderr)
	}
}

// copyExample copies the application into a folder, with its packages. They are linked where that is possible, as files:
// the build of Next.js does not follow links that lead out of the folder.
func copyExample(t *testing.T, packages *node.Packages) string {
	t.Helper()
	folder := filepath.Join(testenv.TempDir(t), "pictures")
	must(t, os.CopyFS(folder, os.DirFS(filepath.Join(testenv.RepoRoot(t), source))))
	for _, made := range []string{"node_modules", ".next"} { // by someone who tried it
		must(t, os.RemoveAll(filepath.Join(folder, made)))
	}
	target := filepath.Join(folder, "node_modules")
	if exec.CommandContext(t.Context(), "cp", "-al", packages.Module(""), target).Run() != nil {
		must(t, os.RemoveAll(target))
		testenv.Run(t, stepTimeout, folder, "cp", "-a", packages.Module(""), target)
	}
	return folder
}

// startStack starts a dev stack without limits of rates, which is stopped when the test ends.
func startStack(t *testing.T) *stack {
	t.Helper()
	return startStackWith(t, "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_RATE_LIMIT_PICTURES=0")
}

// startStackWith starts a dev stack with settings.
func startStackWith(t *testing.T, settings ...string) *stack {
	t.Helper()
	program, dir := testenv.Binary(t, "mediastack-dev"), filepath.Join(testenv.TempDir(t), "data")
	t.Cleanup(func() {
		// Not t.Context(): that has ended by now.
		if out, err := exec.Command(program, "stop", "--data-dir", dir).CombinedOutput(); err != nil {
			t.Errorf("stop the stack: %v\n%s", err, out)
		}
	})
	testenv.Run(t, stepTimeout, testenv.RepoRoot(t), "env", append(settings, program, "run", "--detach", "--data-dir", dir)...)
	text, err := os.ReadFile(filepath.Join(dir, "stack.json"))
	must(t, err)
	s := &stack{}
	must(t, json.Unmarshal(text, s))
	return s
}

// prepare runs the commands of the README.
func prepare(t *testing.T, s *stack, folder string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	must(t, err)
	block := regexp.MustCompile("(?s)```sh " + t.Name() + "\n(.*?)\n```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("the README has no commands")
	}
	must(t, os.WriteFile(filepath.Join(folder, "photo.jpg"), photo(t, 2600, 1300), 0o600))
	testenv.Run(t, stepTimeout, folder, "env", "URL="+s.BaseURL, "API_KEY="+s.APIKey, "bash", "-euo", "pipefail", "-c", string(block[1]))
}

// photo returns an image. It is to be larger than the presets that pages ask for.
func photo(t *testing.T, width, height int) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.SetRGBA(x, y, color.RGBA{uint8(255 * x / width), uint8(255 * y / height), uint8((x ^ y) / 24), 255})
		}
	}
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, picture, nil))
	return file.Bytes()
}

// serve starts a page, and returns its address.
func serve(t *testing.T, folder, baseURL, apiKey string, args ...string) string {
	t.Helper()
	port := testenv.FreePort(t)
	address := fmt.Sprintf("http://localhost:%d", port)
	_, err := testenv.Group(t).Start(t.Context(), servers.Spec{
		Name: strings.Join(args, " "), Path: testenv.Program(t, "node"), Args: args, Dir: folder, LogFile: filepath.Join(t.TempDir(), "log"),
		Env:   []string{"URL=" + baseURL, "API_KEY=" + apiKey, fmt.Sprintf("PORT=%d", port), "NEXT_TELEMETRY_DISABLED=1"},
		Ready: servers.Answers(address), ReadyTimeout: stepTimeout,
	})
	must(t, err)
	return address
}

// startExpiring starts another replica of the stack's runtime, whose signed addresses expire at once. It returns its address.
func startExpiring(t *testing.T, s *stack) string {
	t.Helper()
	api, admin := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	_, err := testenv.Group(t).Start(t.Context(), servers.Spec{
		Name: "the other replica", Path: "/bin/bash", LogFile: filepath.Join(t.TempDir(), "log"),
		Args:  []string{"-euc", `. "$1"; export SERVICE_LISTEN="$2" SERVICE_ADMIN_LISTEN="$3" SERVICE_DELIVERY_TTL=1s SERVICE_DELIVERY_STEP=0s; exec "$4" serve`, "replica", s.Env, api, admin, s.Runtime},
		Ready: servers.Answers("http://" + admin + "/readyz"), ReadyTimeout: stepTimeout,
	})
	must(t, err)
	return "http://" + api
}

// The blocks of the guide are the files of the example.
func TestGuide_HasTheCodeOfTheExample(t *testing.T) {
	t.Parallel()
	root := testenv.RepoRoot(t)
	guide, err := os.ReadFile(filepath.Join(root, "docs/guides/image-presets.md"))
	must(t, err)
	for _, name := range []string{"image-loader.mjs", "next.config.mjs", "unpic-transformer.mjs"} {
		code, err := os.ReadFile(filepath.Join(root, source, name))
		must(t, err)
		if !strings.Contains(string(guide), "`"+name+"`:\n\n```js\n"+string(code)+"```\n") {
			t.Errorf("docs/guides/image-presets.md does not have %s as it is in %s", name, source)
		}
	}
}
