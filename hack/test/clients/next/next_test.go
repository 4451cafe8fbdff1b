// Package next_test builds the application of docs/guides/react.md with Next.js, and uses it in Chromium.
package next_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// stepTimeout is for the build, or for all that the browser does. Other tests may run meanwhile.
const stepTimeout = 8 * time.Minute

var (
	must = check.NoError
	// file is a code block that has the name of its file, and commands one that has the name of a test.
	file     = regexp.MustCompile("(?s)```jsx (\\S+)\n(.*?)```")
	commands = regexp.MustCompile("(?s)```sh TestNext_TheGuideUploadsAndShowsPictures\n(.*?)```")
)

func TestNext_TheGuideUploadsAndShowsPictures(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs/guides/react.md"))
	must(t, err)
	next, browsers := node.New(t, "docs/examples/pictures"), node.New(t, "hack/test/clients/tus")
	folder := install(t, next)
	for _, match := range file.FindAllSubmatch(guide, -1) {
		path := filepath.Join(folder, string(match[1]))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, match[2], 0o600))
	}
	program := filepath.Join(folder, "node_modules/next/dist/bin/next")
	// It needs no network: no font, no telemetry.
	testenv.Run(t, stepTimeout, folder, "env", "NEXT_TELEMETRY_DISABLED=1", "HTTPS_PROXY=http://127.0.0.1:1", testenv.Program(t, "node"), program, "build")

	s := clienttest.New(t)
	command := commands.FindSubmatch(guide)
	if command == nil {
		t.Fatal("the guide has no command")
	}
	testenv.Run(t, stepTimeout, folder, "env", "URL="+s.BaseURL, "API_KEY="+s.APIKey, "bash", "-euo", "pipefail", "-c", string(command[1]))
	port := testenv.FreePort(t)
	address, log := fmt.Sprintf("http://localhost:%d", port), filepath.Join(t.TempDir(), "log")
	_, err = testenv.Group(t).Start(t.Context(), servers.Spec{
		Name: "the application", Path: testenv.Program(t, "node"), Args: []string{program, "start", "--hostname", "localhost"}, Dir: folder, LogFile: log,
		Env:   []string{"URL=" + s.BaseURL, "API_KEY=" + s.APIKey, fmt.Sprintf("PORT=%d", port), "NEXT_TELEMETRY_DISABLED=1"},
		Ready: servers.Answers(address), ReadyTimeout: stepTimeout,
	})
	must(t, err)
	options, err := json.Marshal(map[string]any{"browser": testenv.Program(t, "chromium"), "page": address, "scratch": t.TempDir()})
	must(t, err)
	script := filepath.Join(filepath.Dir(browsers.Script(t, "page.mjs")), "next.mjs")
	text, err := os.ReadFile("next.mjs")
	must(t, err)
	must(t, os.WriteFile(script, text, 0o600))
	if result := browsers.Run(t, stepTimeout, script, string(options)); result.Code != 0 || result.Stdout != "done\n" {
		said, _ := os.ReadFile(log)
		t.Fatalf("the script ended with %d and printed %s%s\n%s", result.Code, result.Stdout, result.Stderr, said)
	}
}

// install makes a folder with the packages of Next.js and the client. They are linked where that is possible, as files: the
// build does not follow links that lead out of the folder.
func install(t *testing.T, packages *node.Packages) (folder string) {
	t.Helper()
	folder = filepath.Join(testenv.TempDir(t), "application")
	target := filepath.Join(folder, "node_modules")
	must(t, os.MkdirAll(folder, 0o755))
	if exec.CommandContext(t.Context(), "cp", "-al", packages.Module(""), target).Run() != nil {
		must(t, os.RemoveAll(target))
		testenv.Run(t, stepTimeout, folder, "cp", "-a", packages.Module(""), target)
	}
	client, built := node.New(t, "clients/typescript"), clienttest.BuildTypeScript(t)
	must(t, os.CopyFS(filepath.Join(target, "@mediastack/client/dist"), os.DirFS(filepath.Join(built, "dist"))))
	manifest, err := os.ReadFile(filepath.Join(built, "package.json"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(target, "@mediastack/client/package.json"), manifest, 0o600))
	var lock struct {
		Packages map[string]struct{ Dev, Peer bool }
	}
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "clients/typescript/package-lock.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &lock))
	for path, one := range lock.Packages {
		name := strings.TrimPrefix(path, "node_modules/")
		if name == "" || one.Dev || one.Peer {
			continue
		}
		must(t, os.RemoveAll(filepath.Join(target, name)))
		must(t, os.CopyFS(filepath.Join(target, name), os.DirFS(client.Module(name))))
	}
	return folder
}
