package typescript_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

const (
	// sampleEnv is where `make screenshots` wants the picture of the sample application.
	sampleEnv = "BROWSER_SAMPLE"
	// largeSize is the size of the resumable upload: enough for two requests, but cheap.
	largeSize = 24 << 20
)

// useSample uses the application of docs/examples/gallery, built by its own command, as a user does.
func useSample(t *testing.T, s *clienttest.Service, client string) {
	t.Helper()
	tools, checks, scratch := node.New(t, "hack/test/clients/tus"), node.New(t, "hack/test/browser"), t.TempDir()
	gallery, source := filepath.Join(scratch, "gallery"), filepath.Join(testenv.RepoRoot(t), "docs/examples/gallery")
	copyFolder(t, source, gallery, "*.*s*")
	copyFolder(t, filepath.Join(source, "page"), filepath.Join(gallery, "page"), "*")
	must(t, os.MkdirAll(filepath.Join(gallery, "node_modules/@mediastack"), 0o755))
	must(t, os.Symlink(client, filepath.Join(gallery, "node_modules/@mediastack/client")))
	text, err := os.ReadFile(filepath.Join(gallery, "package.json"))
	must(t, err)
	var manifest struct{ Scripts map[string]string }
	must(t, json.Unmarshal(text, &manifest))
	build := strings.Fields(manifest.Scripts["build"])
	testenv.Run(t, time.Minute, gallery, tools.Module(".bin/"+build[0]), build[1:]...)

	port := testenv.FreePort(t)
	address := fmt.Sprintf("http://localhost:%d", port)
	_, err = testenv.Group(t).Start(t.Context(), servers.Spec{
		Name: "the gallery", Path: testenv.Program(t, "node"), Args: []string{filepath.Join(gallery, "server.mjs")}, LogFile: filepath.Join(scratch, "server.log"),
		Env:   []string{"URL=" + s.BaseURL, "API_KEY=" + s.APIKey, fmt.Sprintf("PORT=%d", port)},
		Ready: servers.Answers(address),
	})
	must(t, err)
	control := httptest.NewServer(s.Front.Control())
	t.Cleanup(control.Close)
	s.Front.Reset()
	options := map[string]any{
		"browser": testenv.Program(t, "chromium"), "page": address, "control": control.URL, "scratch": scratch, "largeSize": largeSize,
		"axe": checks.Module("axe-core/axe.min.js"), "fonts": checks.Script(t, "fonts.mjs"),
	}
	picture := os.Getenv(sampleEnv)
	if picture != "" {
		options["picture"] = filepath.Join(scratch, "sample.png")
	}
	argument, err := json.Marshal(options)
	must(t, err)
	result := tools.Run(t, scriptTimeout, filepath.Join(client, "scripts", "sample.mjs"), string(argument))
	if result.Code != 0 || result.Stdout != "done\n" {
		log, _ := os.ReadFile(filepath.Join(scratch, "server.log"))
		t.Fatalf("the script ended with %d and printed %s%s\n%s", result.Code, result.Stdout, result.Stderr, log)
	}
	if picture != "" {
		testenv.Run(t, time.Minute, scratch, testenv.Program(t, "vips"), "pngsave", filepath.Join(scratch, "sample.png"), picture, "--palette", "--Q", "90", "--compression", "9", "--strip")
	}
}
