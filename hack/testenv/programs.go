package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

// What tests of the product use of the servers that they are given. They import this package alone.
type (
	// S3Access is what a client needs to use an S3 store.
	S3Access = servers.S3Access
	// S3Config configures an S3 store.
	S3Config = servers.S3Config
	// S3Store is a running S3 store.
	S3Store = servers.S3
	// Spec describes a process for Group.
	Spec = servers.Spec
	// Process is a running process.
	Process = servers.Process
	// RuntimeProcess is a running runtime.
	RuntimeProcess = servers.Runtime
	// ClamdProcess is a running clamd.
	ClamdProcess = servers.Clamd
	// RuntimeConfig says how to run the product's runtime.
	RuntimeConfig = servers.RuntimeConfig
)

// Runtime starts the shipped runtime. It is stopped when the test ends.
func Runtime(t testing.TB, config RuntimeConfig) *servers.Runtime {
	t.Helper()
	if config.LogDir == "" {
		config.LogDir = TempDir(t)
	}
	runtime, err := Group(t).StartRuntime(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return runtime
}

// StoreSettings returns the settings that let every command of the runtime reach its stores.
func StoreSettings(databaseURL string, access S3Access) []string {
	return servers.StoreSettings(databaseURL, access)
}

// Binary returns the path of a shipped binary, which make has built into bin/ (or into the directory that
// MEDIASTACK_BIN names).
func Binary(t testing.TB, name string) string {
	t.Helper()
	path, err := setup.FindBinary(name)
	if err != nil {
		t.Fatalf("the test needs %s: %v", name, err)
	}
	return path
}

// Kubectl returns the path of the kubectl that fits the API server.
func Kubectl(t testing.TB) string {
	t.Helper()
	tools, err := setup.FindKube()
	if err == nil && tools.Kubectl == "" {
		err = fmt.Errorf("%s has none", setup.AssetsEnv)
	}
	if err != nil {
		t.Fatalf("the test needs kubectl: %v", err)
	}
	return tools.Kubectl
}

// Helm returns the path of Helm.
func Helm(t testing.TB) string {
	t.Helper()
	path, err := setup.FindHelm()
	if err != nil {
		t.Fatalf("the test needs Helm: %v", err)
	}
	return path
}

// Promtool returns the path of promtool.
func Promtool(t testing.TB) string {
	t.Helper()
	path, err := setup.FindPromtool()
	if err != nil {
		t.Fatalf("the test needs promtool: %v", err)
	}
	return path
}

// Prometheus returns the path of Prometheus.
func Prometheus(t testing.TB) string {
	t.Helper()
	path, err := setup.FindPrometheus()
	if err != nil {
		t.Fatalf("the test needs Prometheus: %v", err)
	}
	return path
}

// KubeScore returns the path of kube-score.
func KubeScore(t testing.TB) string {
	t.Helper()
	path, err := setup.FindKubeScore()
	if err != nil {
		t.Fatalf("the test needs kube-score: %v", err)
	}
	return path
}

// RepoRoot returns the directory of the checkout.
func RepoRoot(t testing.TB) string {
	t.Helper()
	root, err := setup.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// FreePort returns a TCP port that nothing listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := servers.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Answers returns a readiness check that passes when the URL answers 200.
func Answers(url string) func(context.Context) error { return servers.Answers(url) }

// Group returns a supervisor for a test's own processes. They are stopped when the test ends.
func Group(t testing.TB) *servers.Group {
	t.Helper()
	group := servers.NewGroup()
	t.Cleanup(group.Close)
	return group
}

// Program returns the path of a program of the machine, which make packages installs.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name) // where users other than root do not search
	}
	if err != nil {
		t.Fatalf("the test needs %s: run `make packages`", name)
	}
	return path
}

// Run runs a program to its end in a directory, and returns what it printed. A program that fails fails
// the test.
func Run(t testing.TB, timeout time.Duration, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, out, stderr.String())
	}
	return string(out)
}
