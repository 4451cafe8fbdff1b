// Package release_test installs the clients from the files of a release, as an application does that has neither a clone
// of the repository nor a registry with the clients.
package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	version = "v1.2.3-test.4"
	// stepTimeout is for a build or an installation. Other tests may run meanwhile.
	stepTimeout = 5 * time.Minute
)

var must = check.NoError

func TestClients_AreInstalledFromTheFilesOfARelease(t *testing.T) {
	t.Parallel()
	packages := node.New(t, "clients/typescript")
	release := build(t, packages, version)
	t.Run("by npm", func(t *testing.T) {
		t.Parallel()
		installByNPM(t, packages, release)
	})
	t.Run("by go", func(t *testing.T) {
		t.Parallel()
		installByGo(t, release)
	})
	t.Run("a release of the same commit has the same files", func(t *testing.T) {
		t.Parallel()
		again := build(t, packages, version)
		for _, name := range []string{"mediastack-client-" + version[1:] + ".tgz", "mediastack-client-go-" + version + ".tar.gz"} {
			first, err := os.ReadFile(filepath.Join(release, name))
			must(t, err)
			second, err := os.ReadFile(filepath.Join(again, name))
			must(t, err)
			if string(first) != string(second) {
				t.Errorf("%s differs", name)
			}
		}
	})
}

// Without the v, the npm package was written, and the Go module failed after it. Both forms are taken, and what is no version fails before anything
// is written.
func TestClients_VersionsAreTakenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	packages := node.New(t, "clients/typescript")
	folder := t.TempDir()
	testenv.Run(t, stepTimeout, testenv.RepoRoot(t), "env", "NODE_MODULES="+packages.Module(""), "hack/release-clients.sh", "0.1.0", folder)
	for _, name := range []string{"mediastack-client-0.1.0.tgz", "mediastack-client-go-v0.1.0.tar.gz"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	for _, arguments := range [][]string{{"1.0", folder}, {"v1.2.3.4", folder}, {"01.2.3", folder}, {"latest", folder}, {"", folder}, {"0.1.0"}, {"0.1.0", filepath.Join(folder, "missing")}} {
		command := exec.CommandContext(t.Context(), filepath.Join(testenv.RepoRoot(t), "hack/release-clients.sh"), arguments...)
		command.Env = append(os.Environ(), "PATH=/usr/bin:/bin", "NODE_MODULES=/nowhere")
		out, err := command.CombinedOutput()
		if err == nil || command.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "release-clients.sh") {
			t.Errorf("%q: %v %s", arguments, err, out)
		}
	}
	entries, err := os.ReadDir(folder)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("the folder has %v", entries)
	}
}

// The path of a Go module of version 2 ends in /v2. A release of another path could not be required.
func TestClients_OfVersion2NeedAnotherPath(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), filepath.Join(testenv.RepoRoot(t), "hack/release-clients.sh"), "v2.0.0", t.TempDir())
	command.Env = append(os.Environ(), "NODE_MODULES="+node.New(t, "clients/typescript").Module(""))
	if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "should be v0 or v1, not v2") {
		t.Errorf("%v %s", err, out)
	}
}

// build writes the clients of a release into a folder.
func build(t *testing.T, packages *node.Packages, version string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	testenv.Run(t, stepTimeout, testenv.RepoRoot(t), "env", "NODE_MODULES="+packages.Module(""), "hack/release-clients.sh", version, folder)
	return folder
}

func installByNPM(t *testing.T, packages *node.Packages, release string) {
	project := t.TempDir()
	must(t, os.WriteFile(filepath.Join(project, "package.json"), []byte(`{"name": "application", "private": true, "type": "module"}`), 0o600))
	testenv.Run(t, stepTimeout, project, "env", "HOME="+project, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
		"--registry="+startRegistry(t, packages), "--cache="+t.TempDir(), filepath.Join(release, "mediastack-client-"+version[1:]+".tgz"))
	const script = `import { readFile } from 'node:fs/promises'
import { MediastackClient, UploadQueue } from '@mediastack/client'
const { version } = JSON.parse(await readFile('node_modules/@mediastack/client/package.json'))
const client = new MediastackClient({ baseUrl: 'http://127.0.0.1:1', credential: { apiKey: 'x' }, retry: { attempts: 1 } })
const error = await client.count().catch((one) => one)
console.log(version, error.name, typeof UploadQueue, await import('@mediastack/client/react').catch(({ code, message }) => code + ' ' + message.includes("'react'")))`
	must(t, os.WriteFile(filepath.Join(project, "script.mjs"), []byte(script), 0o600))
	result := packages.Start(t, stepTimeout, project, nil, filepath.Join(project, "script.mjs")).Wait()
	// React is not installed with it: an application has its own.
	if want := version[1:] + " ConnectionError function ERR_MODULE_NOT_FOUND true\n"; result.Stdout != want {
		t.Errorf("the script printed %s%s, want %s", result.Stdout, result.Stderr, want)
	}
	for _, name := range []string{"LICENSE", "README.md", "dist/index.d.ts", "dist/react/index.d.ts"} {
		if _, err := os.Stat(filepath.Join(project, "node_modules/@mediastack/client", name)); err != nil {
			t.Error(err)
		}
	}
	// The directive makes them client components of Next.js.
	for name, client := range map[string]bool{"use-upload": true, "use-media": true, "dropzone": true, "picture": false, "index": false} {
		text, err := os.ReadFile(filepath.Join(project, "node_modules/@mediastack/client/dist/react", name+".js"))
		must(t, err)
		if strings.HasPrefix(string(text), "'use client'") != client {
			t.Errorf("%s begins with %.40s", name, text)
		}
	}
}

func installByGo(t *testing.T, release string) {
	readme, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "clients/go/README.md"))
	must(t, err)
	commands := regexp.MustCompile("(?s)```sh TestClients_AreInstalledFromTheFilesOfARelease\n(.*?)```").FindSubmatch(readme)
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if commands == nil || program == nil {
		t.Fatal("the README has no commands or no program")
	}
	project := t.TempDir()
	must(t, os.WriteFile(filepath.Join(project, "main.go"), program[1], 0o600))
	text := strings.ReplaceAll(string(commands[1]), "v0.1.0", version)
	must(t, os.Link(filepath.Join(release, "mediastack-client-go-"+version+".tar.gz"), filepath.Join(project, "mediastack-client-go-"+version+".tar.gz")))
	// Other modules come from the files that were downloaded for the repository.
	downloaded := strings.TrimSpace(testenv.Run(t, stepTimeout, testenv.RepoRoot(t), "go", "env", "GOMODCACHE"))
	testenv.Run(t, stepTimeout, project, "env", "HOME="+project, "GOPATH="+filepath.Join(project, "go"), "GOCACHE="+strings.TrimSpace(testenv.Run(t, stepTimeout, project, "go", "env", "GOCACHE")),
		"GOFLAGS=-modcacherw", "GOPROXY=file://"+filepath.Join(downloaded, "cache/download"), "GOSUMDB=off", "bash", "-euo", "pipefail", "-c", text+"\ngo build -o program .\ngo list -m mediastack.dev/clients/go >listed")
	listed, err := os.ReadFile(filepath.Join(project, "listed"))
	must(t, err)
	if string(listed) != "mediastack.dev/clients/go "+version+"\n" {
		t.Errorf("the module requires %s", listed)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(project, "program")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is not an http or https URL") {
		t.Errorf("the program without a URL ended with %v and printed %s", err, out)
	}
}
