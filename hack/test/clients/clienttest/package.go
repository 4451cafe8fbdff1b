package clienttest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// compileTimeout is for the TypeScript compiler. Other tests may run meanwhile.
const compileTimeout = 5 * time.Minute

// BuildTypeScript compiles the TypeScript client as `npm run build` does, with more sources of the repository beside its own,
// and returns the folder of the package.
func BuildTypeScript(t testing.TB, more ...string) string {
	t.Helper()
	packages, folder := node.New(t, "clients/typescript"), t.TempDir()
	root := testenv.RepoRoot(t)
	source := filepath.Join(root, "clients/typescript")
	must(t, os.CopyFS(filepath.Join(folder, "src"), os.DirFS(filepath.Join(source, "src"))))
	for _, name := range []string{"package.json", "tsconfig.json"} {
		copyFile(t, filepath.Join(source, name), filepath.Join(folder, name))
	}
	for _, name := range more {
		copyFile(t, filepath.Join(root, name), filepath.Join(folder, "src", filepath.Base(name)))
	}
	must(t, os.Symlink(packages.Module(""), filepath.Join(folder, "node_modules")))
	testenv.Run(t, compileTimeout, folder, "node", packages.Module("typescript/bin/tsc"))
	return folder
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
}
