package typescript_test

import (
	"encoding/json"
	"fmt"
	"net/http"
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
	"mediastack.dev/runtime/account"
)

const (
	// sampleEnv is where `make screenshots` wants the picture of the sample application.
	sampleEnv = "BROWSER_SAMPLE"
	// largeSize is the size of the resumable upload, in bytes.
	largeSize = 200_000_000
)

// useSample uses the application of docs/examples/gallery, built by its own command, as a user does: with an account whose
// deletes can be undone, and with one whose deletes cannot.
func useSample(t *testing.T, s *clienttest.Service, client string) {
	t.Helper()
	tools, checks, scratch := node.New(t, "hack/test/clients/tus"), node.New(t, "hack/test/browser"), t.TempDir()
	gallery := buildSample(t, tools, client, filepath.Join(scratch, "gallery"))
	undo := s.Account(t, "gallery", 2*largeSize, account.Undo{Window: time.Hour, For: account.UndoEveryone})
	address, port := startSample(t, s, gallery, undo, filepath.Join(scratch, "server.log"))
	final, _ := startSample(t, s, gallery, s.Account(t, "final", clienttest.MaxUploadSize, account.Undo{}), filepath.Join(scratch, "final.log"))
	for want, env := range map[string][]string{
		fmt.Sprintf("Port %d is in use. Set PORT to another one.\n", port):            {"URL=" + s.BaseURL, "API_KEY=" + undo, fmt.Sprintf("PORT=%d", port)},
		"Set URL to the base URL of the service, and API_KEY to the key of an app.\n": {"URL=" + s.BaseURL},
	} {
		if result := tools.Start(t, toolTimeout, scratch, env, filepath.Join(gallery, "server.mjs")).Wait(); result.Code != 1 || result.Stdout+result.Stderr != want {
			t.Errorf("the gallery ended with %d and printed %s%s, want %s", result.Code, result.Stdout, result.Stderr, want)
		}
	}
	// An address that is none once ended the server.
	if response, err := http.Get(final + "//"); err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusInternalServerError {
		t.Errorf("a request for // is answered %+v, %v", response, err)
	}
	control := httptest.NewServer(s.Front.Control())
	t.Cleanup(control.Close)
	s.Front.Reset()
	options := map[string]any{
		"browser": testenv.Program(t, "chromium"), "page": address, "final": final, "control": control.URL, "scratch": scratch, "largeSize": largeSize,
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
		sheet := filepath.Join(scratch, "sample.png")
		testenv.Run(t, toolTimeout, scratch, testenv.Program(t, "vips"), "pngsave", sheet, picture, "--palette", "--Q", "90", "--compression", "9", "--strip")
	}
}

// buildSample copies the application into a folder and builds it there, with the packages of the tests.
func buildSample(t *testing.T, tools *node.Packages, client, folder string) string {
	t.Helper()
	source := filepath.Join(testenv.RepoRoot(t), "docs/examples/gallery")
	copyFolder(t, source, folder, "*.*s*")
	copyFolder(t, filepath.Join(source, "page"), filepath.Join(folder, "page"), "*")
	var manifest, installed struct {
		Scripts, Dependencies map[string]string
		Version               string
	}
	for file, into := range map[string]any{filepath.Join(folder, "package.json"): &manifest, tools.Module("thumbhash/package.json"): &installed} {
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, json.Unmarshal(text, into))
	}
	if manifest.Dependencies["thumbhash"] != installed.Version {
		t.Errorf("the application has thumbhash %s, and the tests have %s", manifest.Dependencies["thumbhash"], installed.Version)
	}
	must(t, os.MkdirAll(filepath.Join(folder, "node_modules/@mediastack"), 0o755))
	must(t, os.Symlink(client, filepath.Join(folder, "node_modules/@mediastack/client")))
	must(t, os.Symlink(tools.Module("thumbhash"), filepath.Join(folder, "node_modules/thumbhash")))
	build := strings.Fields(manifest.Scripts["build"])
	testenv.Run(t, toolTimeout, folder, tools.Module(".bin/"+build[0]), build[1:]...)
	return folder
}

// startSample starts the server of the application with the key of an account.
func startSample(t *testing.T, s *clienttest.Service, gallery, apiKey, logFile string) (address string, port int) {
	t.Helper()
	port = testenv.FreePort(t)
	address = fmt.Sprintf("http://localhost:%d", port)
	_, err := testenv.Group(t).Start(t.Context(), servers.Spec{
		Name: "the gallery", Path: testenv.Program(t, "node"), Args: []string{filepath.Join(gallery, "server.mjs")}, LogFile: logFile,
		Env:   []string{"URL=" + s.BaseURL, "API_KEY=" + apiKey, fmt.Sprintf("PORT=%d", port)},
		Ready: servers.Answers(address),
	})
	must(t, err)
	return address, port
}
