package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A line of ldd: "libm.so.6 => /lib/libm.so.6 (0x7f)" or "/lib64/ld.so (0x7f)".
var loaded = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+)`)

// The libraries of another architecture are found without its loader, so those of this one must be what the loader finds.
func TestDependencies_AreThoseThatTheLoaderFinds(t *testing.T) {
	t.Parallel()
	worker := "../../bin/mediastack-imaging"
	command := exec.CommandContext(t.Context(), "ldd", worker)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // without LD_LIBRARY_PATH
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := func(paths []string) []string {
		var resolved []string
		for _, path := range paths {
			file, err := filepath.EvalSymlinks(path)
			if err != nil {
				t.Fatal(err)
			}
			resolved = append(resolved, file)
		}
		slices.Sort(resolved)
		return slices.Compact(resolved)
	}
	var want []string
	for _, match := range loaded.FindAllStringSubmatch(string(out), -1) {
		want = append(want, match[1])
	}
	found, err := dependencies("/", worker)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := files(found), files(want); len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("they are\n%s\nand ldd finds\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRootFolder_RejectsWhatLeadsOutOfIt(t *testing.T) {
	t.Parallel()
	if path, err := rootFolder("/sysroot").inside("/sysroot/usr/lib/a.so"); err != nil || path != "/usr/lib/a.so" {
		t.Errorf("%q, %v", path, err)
	}
	if path, err := rootFolder("/sysroot").inside("/usr/lib/a.so"); err == nil || !strings.Contains(err.Error(), "leads out of it") {
		t.Errorf("%q, %v", path, err)
	}
}
