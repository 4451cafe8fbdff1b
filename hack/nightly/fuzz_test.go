package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// fakeGo takes the place of go: it lists packages of the folder cgo with cgo alone, and says what go test printed for a target.
const fakeGo = `#!/bin/sh
case "$1 $*" in
list*broken*) echo "no such package" >&2; exit 1 ;;
list*cgo*) exit $((1 - CGO_ENABLED)) ;;
list*) exit 0 ;;
*FuzzLate*) printf -- '--- FAIL: FuzzLate (5.12s)\n    context deadline exceeded\nFAIL\n'; exit 1 ;;
*FuzzCrash*) printf -- '--- FAIL: FuzzCrash (0.12s)\n    --- FAIL: FuzzCrash (0.00s)\n    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzCrash/1\nFAIL\n'; exit 1 ;;
*FuzzSlow*) printf -- '--- FAIL: FuzzSlow (0.12s)\n    --- FAIL: FuzzSlow (0.00s)\n        slow_test.go:7: context deadline exceeded\nFAIL\n'; exit 1 ;;
esac
echo "CGO_ENABLED=$CGO_ENABLED $*"
`

// A target of a package with cgo once ran nowhere, and go test fails now and then at the end of the time of a target.
func TestFuzz_RunsEveryTargetAndNamesThoseThatFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		targets map[string]string // by their packages
		fails   bool
		want    string
	}{
		"with and without cgo": {map[string]string{"plain": "FuzzPlain", "cgo": "FuzzCgo"}, false,
			"fuzz: FuzzCgo in ./cgo for 7s\nCGO_ENABLED=1 test -run ^$ -fuzz ^FuzzCgo$ -fuzztime 7s ./cgo\n" +
				"fuzz: FuzzPlain in ./plain for 7s\nCGO_ENABLED=0 test -run ^$ -fuzz ^FuzzPlain$ -fuzztime 7s ./plain\nfuzz: 2 targets, all passed\n"},
		"the time has passed": {map[string]string{"plain": "FuzzLate"}, false,
			"fuzz: FuzzLate in ./plain for 7s\n--- FAIL: FuzzLate (5.12s)\n    context deadline exceeded\nFAIL\nfuzz: FuzzLate has found nothing until its time had passed\nfuzz: 1 targets, all passed\n"},
		"an input fails": {map[string]string{"plain": "FuzzCrash"}, true,
			"fuzz: FuzzCrash in ./plain for 7s\n--- FAIL: FuzzCrash (0.12s)\n    --- FAIL: FuzzCrash (0.00s)\n    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzCrash/1\nFAIL\nfuzz: failed: ./plain FuzzCrash\n"},
		"a seed fails": {map[string]string{"plain": "FuzzSlow"}, true,
			"fuzz: FuzzSlow in ./plain for 7s\n--- FAIL: FuzzSlow (0.12s)\n    --- FAIL: FuzzSlow (0.00s)\n        slow_test.go:7: context deadline exceeded\nFAIL\nfuzz: failed: ./plain FuzzSlow\n"},
		"a package that cannot be built": {map[string]string{"broken": "FuzzBroken"}, true, "no such package\nfuzz: failed: ./broken FuzzBroken\n"},
		"no target":                      {nil, true, "fuzz: no target matches .\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, programs := t.TempDir(), t.TempDir()
			script, err := os.ReadFile("../fuzz.sh")
			must(t, err)
			must(t, os.WriteFile(filepath.Join(programs, "go"), []byte(fakeGo), 0o700))
			files := map[string]string{"hack/fuzz.sh": string(script), "other/other_test.go": "package other\n"}
			for dir, target := range test.targets {
				files[dir+"/some_test.go"] = "package some\n\nfunc " + target + "(f *testing.F) {}\n"
			}
			for path, text := range files {
				must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700))
				must(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
			}
			must(t, exec.CommandContext(t.Context(), "git", "-C", root, "init", "--quiet").Run())
			command := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "hack", "fuzz.sh"))
			command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "FUZZTIME=7s", "FUZZ=")
			output, err := command.CombinedOutput()
			if (err != nil) != test.fails || string(output) != test.want {
				t.Errorf("it ends with %v, and prints\n%s\ninstead of\n%s", err, output, test.want)
			}
		})
	}
}
