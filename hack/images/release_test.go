package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// releaseTo runs make release into a new folder.
func releaseTo(t *testing.T, version string, more ...string) (folder, output string, err error) {
	t.Helper()
	folder = t.TempDir()
	command := exec.CommandContext(t.Context(), "make", append([]string{"release", "NIGHTLY=skip", "VERSION=" + version, "DIST=" + folder}, more...)...)
	command.Dir = "../.."
	out, err := command.CombinedOutput()
	return folder, string(out), err
}

var (
	imageLine = regexp.MustCompile(`(?m)^ *(?:- )?image: (.*)$`)
	kindLine  = regexp.MustCompile(`(?m)^kind: `)
	fileRow   = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	quoted    = regexp.MustCompile("`([^`]+)`")
	// fileOfRelease matches what documents call the files of v0.1.0.
	fileOfRelease = regexp.MustCompile(`[\w$-]*0\.1\.0[\w-]*\.(?:spdx\.json|tar\.gz|tar|tgz)`)
)

func TestRelease_HasItsVersionEverywhere(t *testing.T) {
	t.Parallel()
	const version = "v1.2.3-test.4"
	// The builder of releases is a module of its own.
	program := filepath.Join(t.TempDir(), "release")
	run(t, nil, "go", "-C", "../release", "build", "-o", program, ".")
	keys := filepath.Join(t.TempDir(), "cosign")
	run(t, nil, program, "key", keys)
	folder, output, err := releaseTo(t, version, "SIGNING_KEY="+keys+".key")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if out := run(t, nil, program, "verify", "--key", keys+".pub", "--version", version, folder); !strings.Contains(out, "and 2 images of "+version) {
		t.Errorf("the release is verified as %s", out)
	}
	platform := "linux-" + runtime.GOARCH
	want := []string{
		"CHANGELOG.md", "LICENSE", "SHA256SUMS", "SHA256SUMS.sigstore.json", "cosign.pub", "crds.yaml", "images.txt", "install.yaml", "kind.yaml",
		"mediastack-olm-" + version + ".tar.gz", "mediastack-operator-" + version + ".tar", "mediastack-runtime-" + version + ".tar", "provenance.json", "provenance.sigstore.json",
		"kubectl-mediastack-" + version + "-" + platform + ".tar.gz",
		"mediastack-client-" + version[1:] + ".tgz", "mediastack-client-go-" + version + ".tar.gz",
		"mediastack-operator-" + version + "-" + platform + ".spdx.json", "mediastack-operator-" + version + "-" + platform + ".tar",
		"mediastack-runtime-" + version + "-" + platform + ".spdx.json", "mediastack-runtime-" + version + "-" + platform + ".tar",
	}
	if _, err := os.Stat("../../charts/mediastack"); err == nil {
		want = append(want, "mediastack-"+version[1:]+".tgz")
	}
	slices.Sort(want)
	got := names(t, folder)
	if !slices.Equal(got, want) {
		t.Fatalf("it has the files %q, not %q", got, want)
	}

	// install.md has a table of them all.
	install := string(read(t, "../../docs/guides/install.md"))
	_, listed, _ := strings.Cut(install, "\n## Get the release\n")
	listed, _, _ = strings.Cut(listed, "\n## ")
	var patterns []string
	for _, row := range fileRow.FindAllStringSubmatch(listed, -1) {
		for _, match := range quoted.FindAllStringSubmatch(row[1], -1) {
			patterns = append(patterns, strings.NewReplacer("v0.1.0", version, "0.1.0", version[1:], "OS-ARCH", platform, "linux-amd64", platform).Replace(match[1]))
		}
	}
	for _, name := range got {
		if !slices.ContainsFunc(patterns, func(pattern string) bool { ok, err := path.Match(pattern, name); return ok && err == nil }) {
			t.Errorf("the table of install.md lacks %s", name)
		}
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(got, func(name string) bool { ok, err := path.Match(pattern, name); return ok && err == nil }) {
			t.Errorf("the table of install.md has %s, which no release has", pattern)
		}
	}
	// The pages for admins name these files.
	for _, page := range []string{"guides/install.md", "guides/try-on-kind.md", "guides/gitops-install.md", "guides/operate.md", "reference/images.md", "reference/kubectl-mediastack.md"} {
		for _, named := range fileOfRelease.FindAllString(string(read(t, filepath.Join("../../docs", page))), -1) {
			for _, name := range imageNames {
				is := strings.NewReplacer("v0.1.0", version, "0.1.0", version[1:], "$name", name, "NAME", name, "OS-ARCH", platform, "linux-ARCH", platform, "linux-amd64", platform, "linux-arm64", platform, "darwin-arm64", platform).Replace(named)
				if !slices.Contains(got, is) {
					t.Errorf("docs/%s names the file %s, which no release has", page, named)
				}
			}
		}
	}

	sums := string(read(t, filepath.Join(folder, "SHA256SUMS")))
	for _, name := range got {
		if !strings.HasPrefix(name, "SHA256SUMS") && !strings.Contains(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(read(t, filepath.Join(folder, name))), name)) {
			t.Errorf("SHA256SUMS has no line for %s", name)
		}
	}

	manifests := string(read(t, filepath.Join(folder, "install.yaml")))
	for _, name := range []string{"install.yaml", "crds.yaml"} {
		text := string(read(t, filepath.Join(folder, name)))
		for object := range strings.SplitSeq(text, "\n---\n") {
			if kindLine.MatchString(object) && !strings.Contains(object, "\n    app.kubernetes.io/version: "+version+"\n") {
				t.Errorf("%s: an object has no version:\n%.300s", name, object)
			}
		}
	}
	images := imageLine.FindAllStringSubmatch(manifests, -1)
	for _, match := range images {
		if match[1] != "mediastack/operator:"+version && match[1] != "mediastack/runtime:"+version {
			t.Errorf("install.yaml runs %s", match[1])
		}
	}
	if len(images) < 3 {
		t.Errorf("install.yaml has %d images", len(images))
	}

	if chart := filepath.Join(folder, "mediastack-"+version[1:]+".tgz"); slices.Contains(got, filepath.Base(chart)) {
		text := run(t, nil, "tar", "--extract", "--to-stdout", "--file", chart, "mediastack/Chart.yaml")
		if !strings.Contains(text, "\nversion: "+version[1:]+"\n") || !strings.Contains(text, "appVersion: "+version+"\n") {
			t.Errorf("the chart has other versions:\n%s", text)
		}
	}

	plugin := t.TempDir()
	run(t, nil, "tar", "--extract", "--file", filepath.Join(folder, "kubectl-mediastack-"+version+"-"+platform+".tar.gz"), "--directory", plugin)
	if got := names(t, plugin); !slices.Equal(got, []string{"LICENSE", "kubectl-mediastack", "licenses"}) {
		t.Errorf("the plug-in's archive has %q", got)
	}
	programs := []string{filepath.Join(plugin, "kubectl-mediastack")}
	for _, name := range imageNames {
		image, _ := readArchive(t, filepath.Join(folder, "mediastack-"+name+"-"+version+"-"+platform+".tar"))
		root := unpack(t, image)
		found, err := filepath.Glob(filepath.Join(root, "usr/local/bin/*"))
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, found...)
	}
	if len(programs) != 4 {
		t.Errorf("there are the programs %q", programs)
	}
	for _, program := range programs {
		if out := run(t, nil, program, "--version"); !strings.HasPrefix(out, version) {
			t.Errorf("%s --version prints %q", filepath.Base(program), out)
		}
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func TestRelease_RejectsOtherVersions(t *testing.T) {
	t.Parallel()
	before := read(t, "../../bin/mediastack-operator")
	for version, want := range map[string]string{
		"": "semantic version", "0.1.0": "semantic version", "v0.1": "semantic version", "v01.2.3": "semantic version",
		"v1.2.3-01": "semantic version", "v1.2.3+build": "semantic version", "v1.2.3 ": "semantic version", "latest": "semantic version",
		"v99.0.0": `CHANGELOG.md has no section [99.0.0]: write the line "## [99.0.0]" and an empty line after line 6`,
	} {
		folder, output, err := releaseTo(t, version)
		if first, _, _ := strings.Cut(output, "\n"); err == nil || !strings.Contains(first, want) {
			t.Errorf("%q: %v, %s", version, err, output)
		}
		if left := names(t, folder); len(left) > 0 {
			t.Errorf("%q: it wrote %q", version, left)
		}
	}
	if !bytes.Equal(before, read(t, "../../bin/mediastack-operator")) {
		t.Error("the programs of the checkout were built again")
	}
}

// Whatever the moment of the signal, a release that exists stays, and nothing else is left.
func TestRelease_InterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, stop := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		root := t.TempDir()
		dist := filepath.Join(root, "dist")
		command := exec.CommandContext(t.Context(), "../../hack/release.sh", "v1.2.3-test.5")
		command.Env = append(os.Environ(), "DIST="+dist, "REVISION=0", "COMMITTED=0", "KUBECTL=false", "HELM=false", "PLATFORMS=linux/"+runtime.GOARCH)
		var said bytes.Buffer
		command.Stderr = &said
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		// In the middle of the next step, which is a build.
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), "the tools took") {
		}
		working := workFolders(t, command.Process.Pid)
		if len(working) != 1 {
			t.Fatalf("it works in %q: %s", working, said.String())
		}
		if err := command.Process.Signal(stop); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // until nobody writes any more: its children have ended, too
		}
		if err := command.Wait(); err == nil {
			t.Errorf("%v: the release was made", stop)
		}
		if _, err := os.Stat(working[0]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: %s is left (%v)", stop, working[0], err)
		}
		if left := names(t, root); len(left) > 0 {
			t.Errorf("%v: %q is left", stop, left)
		}
	}
}

// workFolders returns the folders of the checkout that a process has open.
func workFolders(t *testing.T, pid int) []string {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(filepath.Base(target), ".release-") {
			found = append(found, target)
		}
	}
	return found
}

// What a release that was killed has left is removed by the next one; that of a running one is not.
func TestRelease_RemovesWhatAKilledOneHasLeft(t *testing.T) {
	t.Parallel()
	killed, running := "../../.release-killed", "../../.release-running"
	for _, folder := range []string{killed, running} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(folder) })
	}
	lock, err := os.Open(running)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	// The release itself fails in its first step.
	command := exec.CommandContext(t.Context(), "../../hack/release.sh", "v1.2.3-test.6")
	command.Env = append(os.Environ(), "DIST="+filepath.Join(t.TempDir(), "dist"), "PLATFORMS=linux/"+runtime.GOARCH, "GOFLAGS=-mod=none")
	if out, err := command.CombinedOutput(); err == nil {
		t.Errorf("a release without modules was made: %s", out)
	}
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", killed, err)
	}
	if _, err := os.Stat(running); err != nil {
		t.Errorf("the folder of a running release is gone: %v", err)
	}
}
