package imaging_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// golang runs the go command with or without cgo.
func golang(t *testing.T, cgo string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED="+cgo)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v: %s", args, err, out)
	}
	return string(out)
}

const (
	runtimeMain  = "mediastack.dev/runtime/cmd/mediastack-runtime"
	operatorMain = "mediastack.dev/controllers/cmd/mediastack-operator"
	imagingMain  = "mediastack.dev/runtime/cmd/mediastack-imaging"
)

func TestPrograms_LinkNoCExceptTheImageWorker(t *testing.T) {
	t.Parallel()
	// With cgo on, so that nothing hides behind a build constraint.
	withC := func(pkg string) string {
		return golang(t, "1", "list", "-deps", "-f", "{{if and (not .Standard) (or .CgoFiles .CFiles .CXXFiles)}}{{.ImportPath}}{{end}}", pkg)
	}
	for _, pkg := range []string{runtimeMain, operatorMain} {
		if found := strings.TrimSpace(withC(pkg)); found != "" {
			t.Errorf("%s links C: %s", pkg, found)
		}
	}
	if found := withC(imagingMain); !strings.Contains(found, "github.com/h2non/bimg") {
		t.Errorf("the image worker should link libvips, but has only %q", found)
	}
	golang(t, "0", "build", "-o", filepath.Join(t.TempDir(), "runtime"), runtimeMain)
}
