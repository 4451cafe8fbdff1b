// Package node runs the Node programs of tests: browsers, clients of TUS and MCP, and the MCP
// conformance suite.
package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/testenv"
)

// Packages are a Node.js and the installed packages that a lock file pins.
type Packages struct {
	program string
	dir     string
	source  string
}

// installTimeout is for some 350 MB from the registry.
const installTimeout = 10 * time.Minute

// New installs the packages of a directory of the repository, which holds the package.json and its lock
// file, unless they are in the cache already. The Node.js is the one among the packages, or the machine's.
func New(t testing.TB, source string) *Packages {
	t.Helper()
	root, err := setup.RepoRoot()
	must(t, err)
	source = filepath.Join(root, filepath.FromSlash(source))
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	must(t, err)
	cache, err := setup.CacheDir()
	must(t, err)
	p := &Packages{source: source, dir: filepath.Join(cache, "node", fmt.Sprintf("%x", sha256.Sum256(lock))[:16])}
	must(t, p.install(t.Context()))
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	p.program = p.Module("node-linux-" + arch + "/bin/node")
	if _, err := os.Stat(p.program); err != nil {
		p.program = testenv.Program(t, "node")
	}
	return p
}

// install runs npm in a new directory, which it renames when it is complete.
func (p *Packages) install(ctx context.Context) error {
	// Several test processes may want it at once.
	if err := os.MkdirAll(filepath.Dir(p.dir), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(p.dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(p.dir); err == nil {
		return nil
	}
	fresh, err := os.MkdirTemp(filepath.Dir(p.dir), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for _, name := range []string{"package.json", "package-lock.json"} {
		if err := copyFile(filepath.Join(p.source, name), filepath.Join(fresh, name)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci (npm comes with `make packages`): %w: %s", err, out)
	}
	return os.Rename(fresh, p.dir)
}

// Module returns the path of a file of an installed package.
func (p *Packages) Module(name string) string { return filepath.Join(p.dir, "node_modules", name) }

// Script returns the path of a script of the source directory, copied beside the others to where it
// finds the packages.
func (p *Packages) Script(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(p.dir, "node_modules"), filepath.Join(dir, "node_modules")))
	scripts, err := filepath.Glob(filepath.Join(p.source, "*.mjs"))
	must(t, err)
	for _, script := range scripts {
		must(t, copyFile(script, filepath.Join(dir, filepath.Base(script))))
	}
	return filepath.Join(dir, name)
}

// Run runs a script to its end.
func (p *Packages) Run(t testing.TB, timeout time.Duration, script string, args ...string) Result {
	t.Helper()
	return p.Start(t, timeout, t.TempDir(), nil, script, args...).Wait()
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
