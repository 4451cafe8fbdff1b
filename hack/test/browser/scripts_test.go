package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/setup"
)

// scriptTimeout is for all that one script does.
const scriptTimeout = 5 * time.Minute

// told is what a script prints of each story, on a line.
type told struct {
	Story   string
	Problem string
	Took    float64 // seconds
}

// tell has a script tell its stories at the service; each becomes a test.
func (s *service) tell(t *testing.T, script string, more map[string]any) {
	t.Helper()
	folder := scriptsFolder(t)
	one, both := everybody()
	options := map[string]any{
		"browser": find(t, "chromium"), "base": s.base, "api": s.api, "plain": s.plain, "backstage": s.backstage(t),
		"front": s.front.Listener.Addr().String(), "people": one, "owners": both,
	}
	for name, value := range more {
		options[name] = value
	}
	text, err := json.Marshal(options)
	must(t, err)
	out, failed := run(t, folder, scriptTimeout, find(t, "node"), script, string(text))
	stories := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var told told
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil || told.Story == "" {
			t.Fatalf("%s printed %s", script, lines.Text())
		}
		stories++
		t.Run(told.Story, func(t *testing.T) {
			t.Logf("%.1f s", told.Took)
			if told.Problem != "" {
				t.Error(told.Problem)
			}
		})
	}
	if failed != nil || stories == 0 {
		t.Fatalf("%s told %d stories: %v", script, stories, failed)
	}
}

// scriptsFolder is a folder with the scripts and the packages that the lock file pins.
// The packages are kept between runs, as the pinned programs are.
func scriptsFolder(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	must(t, err)
	cache, err := setup.CacheDir()
	must(t, err)
	installed := filepath.Join(cache, "browser", fmt.Sprintf("%x", sha256.Sum256(lock))[:16])
	if _, err := os.Stat(installed); err != nil {
		must(t, os.MkdirAll(filepath.Dir(installed), 0o755))
		fresh, err := os.MkdirTemp(filepath.Dir(installed), "new-")
		must(t, err)
		for _, name := range []string{"package.json", "package-lock.json"} {
			copyFile(t, name, filepath.Join(fresh, name))
		}
		_, err = run(t, fresh, scriptTimeout, find(t, "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		must(t, err)
		if err := os.Rename(fresh, installed); err != nil { // another run may have been first
			must(t, os.RemoveAll(fresh))
		}
	}
	folder := t.TempDir()
	must(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(folder, "node_modules")))
	scripts, err := filepath.Glob("*.mjs")
	must(t, err)
	for _, name := range scripts {
		copyFile(t, name, filepath.Join(folder, name))
	}
	return folder
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
}

// find returns the path of a program.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("the test needs %s: run `make packages`", name)
	}
	return path
}

// run runs a program to its end and gives what it printed.
func run(t *testing.T, folder string, timeout time.Duration, name string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	// A browser's processes end with the program that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if stderr.Len() > 0 {
		t.Log(stderr.String())
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return out, err
}
