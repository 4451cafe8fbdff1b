// Package mcpclients brings real MCP clients and the official conformance suite, which
// are Node programs, and has them talk to the shipped runtime. Tests of the runtime's
// own packages use it, too.
package mcpclients

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/setup"
)

// Node is a Node.js with the packages that the lock file pins, Node itself included:
// Debian's is too old for some of them.
type Node struct {
	program string
	folder  string
	source  string
}

// installTimeout is for some 350 MB from the registry.
const installTimeout = 10 * time.Minute

// NewNode installs what is missing into the cache, where it is kept between runs.
func NewNode(t testing.TB) *Node {
	t.Helper()
	root, err := setup.RepoRoot()
	must(t, err)
	source := filepath.Join(root, "hack", "test", "clients", "mcp")
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	must(t, err)
	cache, err := setup.CacheDir()
	must(t, err)
	folder := filepath.Join(cache, "mcpclients", fmt.Sprintf("%x", sha256.Sum256(lock))[:16])
	must(t, install(t.Context(), source, folder))
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return &Node{folder: folder, source: source, program: filepath.Join(folder, "node_modules", "node-linux-"+arch, "bin", "node")}
}

func install(ctx context.Context, source, folder string) error {
	// Several test processes may want it at once.
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(folder), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("the test needs npm: run `make packages`")
	}
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o644); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return os.Rename(fresh, folder)
}

// Module returns the path of a file of an installed package.
func (n *Node) Module(name string) string { return filepath.Join(n.folder, "node_modules", name) }

// Script returns the path of a script of this folder, in a place where it finds the packages.
func (n *Node) Script(t testing.TB, name string) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.Symlink(filepath.Join(n.folder, "node_modules"), filepath.Join(folder, "node_modules")))
	scripts, err := filepath.Glob(filepath.Join(n.source, "*.mjs"))
	must(t, err)
	for _, script := range scripts {
		content, err := os.ReadFile(script)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, filepath.Base(script)), content, 0o600))
	}
	return filepath.Join(folder, name)
}

// Run runs a script to its end.
func (n *Node) Run(t testing.TB, timeout time.Duration, stdin io.Reader, script string, args ...string) Ended {
	t.Helper()
	return n.launch(t, timeout, t.TempDir(), stdin, nil, script, args).Wait()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
