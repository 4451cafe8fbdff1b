package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// releaseTo runs make release into a new folder.
func releaseTo(t *testing.T, version string) (folder, output string, err error) {
	t.Helper()
	folder = t.TempDir()
	command := exec.CommandContext(t.Context(), "make", "release", "NIGHTLY=skip", "VERSION="+version, "DIST="+folder, "PLATFORMS=linux/"+runtime.GOARCH)
	command.Dir = "../.."
	out, err := command.CombinedOutput()
	return folder, string(out), err
}

var (
	imageLine = regexp.MustCompile(`(?m)^ *(?:- )?image: (.*)$`)
	kindLine  = regexp.MustCompile(`(?m)^kind: `)
)

func TestRelease_HasItsVersionEverywhere(t *testing.T) {
	t.Parallel()
	const version = "v1.2.3-test.4"
	folder, output, err := releaseTo(t, version)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	platform := "linux-" + runtime.GOARCH
	want := []string{
		"CHANGELOG.md", "LICENSE", "SHA256SUMS", "crds.yaml", "install.yaml",
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

	sums := string(read(t, filepath.Join(folder, "SHA256SUMS")))
	for _, name := range got {
		if name != "SHA256SUMS" && !strings.Contains(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(read(t, filepath.Join(folder, name))), name)) {
			t.Errorf("SHA256SUMS has no line for %s", name)
		}
	}

	install := string(read(t, filepath.Join(folder, "install.yaml")))
	for _, name := range []string{"install.yaml", "crds.yaml"} {
		text := string(read(t, filepath.Join(folder, name)))
		for object := range strings.SplitSeq(text, "\n---\n") {
			if kindLine.MatchString(object) && !strings.Contains(object, "\n    app.kubernetes.io/version: "+version+"\n") {
				t.Errorf("%s: an object has no version:\n%.300s", name, object)
			}
		}
	}
	images := imageLine.FindAllStringSubmatch(install, -1)
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
		if !strings.Contains(text, "\nversion: "+version[1:]+"\n") || !strings.Contains(text, "\nappVersion: "+version+"\n") {
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
		"v99.0.0": "CHANGELOG.md has no section [99.0.0]",
	} {
		folder, output, err := releaseTo(t, version)
		if err == nil || !strings.Contains(output, want) {
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
