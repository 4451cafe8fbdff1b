package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// inRoot returns the command line that runs a program with nothing but the root file system of an
// image: read-only, as the image's user, without a network and without other processes. The
// folder and its parents must be readable by that user.
func inRoot(root, program string) []string {
	const enter = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot %s "$0" "$@"`
	user, namespaces := "--userspec=65532:65532", []string{"unshare"}
	if os.Getuid() != 0 { // the user is root in a namespace of its own, which has no other user
		user, namespaces = "", append(namespaces, "--user", "--map-root-user")
	}
	return append(namespaces, "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child",
		"sh", "-c", fmt.Sprintf(enter, user), root, program)
}

func TestPrograms_RunFromTheImageAlone(t *testing.T) {
	t.Parallel()
	for name, programs := range map[string][]string{"operator": {"mediastack-operator"}, "runtime": {"mediastack-runtime", "mediastack-imaging"}} {
		image, _ := readArchive(t, fixtures[name].archive)
		root := unpack(t, image)
		for _, program := range programs {
			built := run(t, nil, filepath.Join("../../bin", program), "--version")
			command := append(inRoot(root, "/usr/local/bin/"+program), "--version")
			if got := run(t, nil, command[0], command[1:]...); got != built || strings.TrimSpace(got) == "" {
				t.Errorf("%s prints %q in the image, and %q outside of it", program, got, built)
			}
		}
	}
}

// derive runs the tests of the image worker's corpus with the worker of a root file system.
func derive(t *testing.T, root string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	line := "#!/bin/sh\nexec"
	for _, argument := range inRoot(root, "/usr/local/bin/mediastack-imaging") {
		line += " '" + argument + "'"
	}
	if err := os.WriteFile(filepath.Join(bin, "mediastack-imaging"), []byte(line+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "TestDerive_Corpus", "./runtime/internal/imaging")
	command.Dir = "../.."
	command.Env = append(os.Environ(), "MEDIASTACK_BIN="+bin)
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestImageWorker_ConvertsEveryFormatFromTheImageAlone(t *testing.T) {
	t.Parallel()
	image, _ := readArchive(t, fixtures["runtime"].archive)
	root := unpack(t, image)
	if out, err := derive(t, root); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	// The test would notice if what ldd does not list were missing.
	modules, err := filepath.Glob(filepath.Join(root, "usr/lib/*/vips-modules-*/vips-heif.so"))
	if err != nil || len(modules) != 1 {
		t.Fatalf("the image has %d HEIC modules (%v)", len(modules), err)
	}
	if err := os.Remove(modules[0]); err != nil {
		t.Fatal(err)
	}
	out, err := derive(t, root)
	for _, want := range []string{"heic: ", "avif: "} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("without the HEIC module: %v\n%s", err, out)
		}
	}
	if strings.Contains(out, "jpeg, orientation 1") {
		t.Errorf("without the HEIC module, JPEG fails, too:\n%s", out)
	}
}
