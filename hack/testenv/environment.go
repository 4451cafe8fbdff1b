package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// insideEnv has the name of the test whose environment a process has.
const insideEnv = "MEDIASTACK_TEST_ENVIRONMENT"

// InEnvironment runs the calling test again, in a process that has variables (NAME=value) from its start, and returns false. In that process it
// returns true. t.Setenv is too late for what packages read once: net/http has read its proxy before the first test begins.
func InEnvironment(t *testing.T, variables ...string) (inside bool) {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(append(os.Environ(), variables...), insideEnv+"="+t.Name())
	if output, err := child.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Errorf("with %s: %v\n%s", strings.Join(variables, " "), err, output)
	}
	return false
}
