package testenv

import (
	"context"
	"fmt"
	"testing"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

// What tests of the product use of the servers that they are given. They import this package alone.
type (
	// S3Access is what a client needs to use an S3 store.
	S3Access = servers.S3Access
	// S3Store is a running S3 store.
	S3Store = servers.S3
	// Spec describes a process for Group.
	Spec = servers.Spec
	// Process is a running process.
	Process = servers.Process
)

// Binary returns the path of a shipped binary, which make has built into bin/ (or into the folder that
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

// RepoRoot returns the folder of the checkout.
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
