// Package arm64_test runs the programs of the images for arm64 on a machine of another architecture, with the user mode of QEMU,
// which translates their instructions. They load the libraries of their image alone.
package arm64_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

// fullEnv is set for the tests at full size, which make nightly runs.
const fullEnv = "MEDIASTACK_TEST_FULL"

const (
	version  = "v1.2.3-test.4"
	emulator = "qemu-aarch64-static"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = testenv.RepoRoot(t), append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// unpack writes the file system of an image for arm64 into a folder.
func unpack(t *testing.T, release, name string) string {
	t.Helper()
	layout, root := t.TempDir(), t.TempDir()
	run(t, nil, "tar", "--extract", "--file", filepath.Join(release, "mediastack-"+name+"-"+version+"-linux-arm64.tar"), "--directory", layout)
	read := func(path string, into any) {
		text, err := os.ReadFile(filepath.Join(layout, path))
		must(t, err)
		must(t, json.Unmarshal(text, into))
	}
	blob := func(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
	var index struct{ Manifests []struct{ Digest string } }
	read("index.json", &index)
	var manifest struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	read(blob(index.Manifests[0].Digest), &manifest)
	var config struct{ Architecture, OS string }
	if read(blob(manifest.Config.Digest), &config); config.Architecture != "arm64" || config.OS != "linux" {
		t.Errorf("the image %s is for %+v", name, config)
	}
	for _, layer := range manifest.Layers {
		run(t, nil, "tar", "--extract", "--file", filepath.Join(layout, blob(layer.Digest)), "--directory", root)
	}
	return root
}

// translated writes a program that runs one of an image, and returns its path.
func translated(t *testing.T, folder, root, program string) string {
	t.Helper()
	file := filepath.Join(folder, program)
	must(t, os.WriteFile(file, []byte("#!/bin/sh\nexec "+emulator+" -L "+root+" "+root+"/usr/local/bin/"+program+" \"$@\"\n"), 0o700))
	return file
}

func TestImages_ForARM64Run(t *testing.T) {
	t.Parallel()
	if os.Getenv(fullEnv) == "" {
		t.Skip("it builds everything for arm64: make test-arm64 runs it")
	}
	release, bin := filepath.Join(t.TempDir(), "dist"), t.TempDir()
	run(t, []string{"OTHER_PACKAGES=1"}, "make", "release", "NIGHTLY=skip", "VERSION="+version, "DIST="+release, "PLATFORMS=linux/amd64 linux/arm64")
	programs := map[string]string{}
	for name, of := range map[string][]string{"operator": {"mediastack-operator"}, "runtime": {"mediastack-runtime", "mediastack-imaging"}} {
		root := unpack(t, release, name)
		for _, program := range of {
			programs[program] = translated(t, bin, root, program)
			if out := run(t, nil, programs[program], "--version"); !strings.HasPrefix(out, version) {
				t.Errorf("%s --version prints %q", program, out)
			}
		}
	}
	t.Run("the preflight finds nothing missing", func(t *testing.T) {
		access := testenv.S3(t)
		out := run(t, []string{
			"SERVICE_BASE_URL=http://127.0.0.1:1", "SERVICE_SECRET=" + strings.Repeat("0f", 32), "SERVICE_DATABASE_URL=" + testenv.EmptyPostgres(t),
			"SERVICE_S3_ENDPOINT=" + access.Endpoint, "SERVICE_S3_REGION=" + access.Region, "SERVICE_S3_ACCESS_KEY=" + access.AccessKey, "SERVICE_S3_SECRET_KEY=" + access.SecretKey,
		}, programs["mediastack-runtime"], "preflight")
		for _, want := range []string{"works    database: PostgreSQL ", "works    objects: conditional puts", "nothing is missing"} {
			if !strings.Contains(out, want) {
				t.Errorf("the report lacks %q:\n%s", want, out)
			}
		}
	})
	t.Run("every format has its thumbnail", func(t *testing.T) {
		env := []string{"MEDIASTACK_BIN=" + bin}
		run(t, env, "go", "test", "-count=1", "-run", "TestDerive_Corpus", "./runtime/internal/imaging")
		// The test would notice a worker that makes none.
		must(t, os.WriteFile(programs["mediastack-imaging"], []byte("#!/bin/sh\nexit 1\n"), 0o600))
		command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "TestDerive_Corpus", "./runtime/internal/imaging")
		command.Dir, command.Env = testenv.RepoRoot(t), append(os.Environ(), env...)
		if out, err := command.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("the image worker did not start")) {
			t.Errorf("without a worker: %v\n%s", err, out)
		}
	})
}
