//go:build cluster

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/testenv/wait"
)

// testName is the name of the cluster of these tests.
const testName = "lifecycle"

// mediastackCluster runs the program that make has built, and returns what it printed.
func mediastackCluster(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := setup.FindBinary("mediastack-cluster")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...) // stop runs in a cleanup
	command.Env = append(os.Environ(), "MEDIASTACK_CLUSTER_NAME="+testName)
	output, err := command.CombinedOutput()
	return string(output), err
}

// must is mediastackCluster that succeeds.
func must(t *testing.T, args ...string) string {
	t.Helper()
	output, err := mediastackCluster(t, args...)
	if err != nil {
		t.Fatalf("mediastack-cluster %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func testDir(t *testing.T) *dataDir {
	t.Helper()
	data, err := dataFlag{Name: testName}.open()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// machine is what a cluster could change of a machine.
func machine(t *testing.T) string {
	t.Helper()
	var seen bytes.Buffer
	for _, args := range [][]string{{"ip", "-brief", "link"}, {"ip", "route"}, {"ip", "rule"}, {"ip", "netns"}, {"nft", "list", "ruleset"}} {
		output, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, output)
		}
		seen.Write(output)
	}
	for _, name := range slices.Sorted(maps.Keys(sysctls)) {
		seen.WriteString(name + "=")
		seen.Write(read(t, filepath.Join("/proc/sys", name)))
	}
	seen.Write(read(t, "/proc/sys/net/ipv4/ip_forward"))
	seen.Write(read(t, "/proc/self/mountinfo"))
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/netns", "/etc/cni"} {
		_, err := os.Stat(dir)
		fmt.Fprintln(&seen, dir, errors.Is(err, os.ErrNotExist))
	}
	return seen.String()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// left returns the processes in cgroups of the test's cluster, the cgroups, and the processes with its
// directory in their command lines.
func left(t *testing.T) (found []string) {
	t.Helper()
	data := testDir(t)
	groups, err := filepath.Glob(filepath.Join(cgroupRoot, "*", data.cgroup("*")))
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, groups...)
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		membership, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup"))
		if bytes.Contains(line, []byte(data.dir)) || bytes.Contains(membership, []byte(data.cgroup(""))) {
			found = append(found, fmt.Sprintf("%s: %q", path, line))
		}
	}
	return found
}

// start starts a cluster that is stopped after the test, and returns its first process.
func start(t *testing.T) (pid int) {
	t.Helper()
	t.Cleanup(func() { must(t, "stop") })
	must(t, "up")
	pid, err := testDir(t).holder()
	if err != nil || pid == 0 {
		t.Fatalf("the first process: %d, %v", pid, err)
	}
	return pid
}

func TestCluster_LeavesTheMachineAsItWas(t *testing.T) {
	before := machine(t)
	start(t)
	if diff := cmp.Diff(before, machine(t)); diff != "" {
		t.Errorf("while the cluster runs, the machine differs:\n%s", diff)
	}
	if output := must(t, "up"); !strings.Contains(output, "runs already") {
		t.Errorf("up with a cluster that runs: %s", output)
	}
	must(t, "stop")
	if diff := cmp.Diff(before, machine(t)); diff != "" {
		t.Errorf("after the cluster, the machine differs:\n%s", diff)
	}
	if found := left(t); len(found) > 0 {
		t.Errorf("after stop there is\n%s", strings.Join(found, "\n"))
	}
	if _, err := os.Stat(testDir(t).dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after stop the data directory: %v", err)
	}
	if output, err := mediastackCluster(t, "exec", "true"); err == nil || !strings.Contains(output, "make cluster") {
		t.Errorf("exec without a cluster: %v: %s", err, output)
	}
}

func TestCluster_KilledLeavesNoProcessAndStartsAgain(t *testing.T) {
	pid := start(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := testDir(t).waitReleased(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The kernel ends the other processes a moment later.
	wait.UntilNone(t, func() string {
		found := left(t)
		if slices.ContainsFunc(found, func(one string) bool { return strings.HasPrefix(one, "/proc/") }) {
			return "after the kill there is\n" + strings.Join(found, "\n")
		}
		return ""
	})
	must(t, "up")
	if output := must(t, "exec", "kubectl", "get", "nodes", "--output=name"); output != "node/node1\nnode/node2\n" {
		t.Errorf("after the kill and a new start the nodes are %q", output)
	}
	must(t, "stop")
	if found := left(t); len(found) > 0 {
		t.Errorf("after stop there is\n%s", strings.Join(found, "\n"))
	}
}

func TestLose_ANodeAnswersNothingUntilItReturns(t *testing.T) {
	start(t)
	kubelet := fmt.Sprintf("</dev/tcp/%s/10250", nodeAddress(2))
	if output, err := mediastackCluster(t, "exec", "timeout", "5", "bash", "-c", kubelet); err != nil {
		t.Fatalf("the kubelet of node2 before: %v: %s", err, output)
	}
	node, err := dataFlag{Name: testName}.find("node2")
	if err != nil {
		t.Fatal(err)
	}
	former := proxyOf(t, node)
	must(t, "lose", "node2")
	for state, want := range map[bool]bool{true: true, false: false} {
		found, err := node.processes(func(s string) bool { return (s == stopped) == state })
		if err != nil || len(found) > 0 != want {
			t.Errorf("of the lost node %d processes are stopped (%t): %v", len(found), state, err)
		}
	}
	if output, err := mediastackCluster(t, "exec", "timeout", "2", "bash", "-c", kubelet); err == nil {
		t.Errorf("the kubelet of the lost node answers: %s", output)
	}
	if output := must(t, "exec", "kubectl", "get", "node", "node1", "--output=name"); output != "node/node1\n" {
		t.Errorf("without node2 the cluster answers %q", output)
	}
	must(t, "return", "node2")
	wait.UntilNone(t, func() string {
		output, err := mediastackCluster(t, "exec", "timeout", "2", "bash", "-c", kubelet)
		if err != nil {
			return "the kubelet of the node that returned: " + output
		}
		if now := proxyOf(t, node); now == former || now == 0 {
			return fmt.Sprintf("the node that returned has the kube-proxy %d, and had %d", now, former)
		}
		return ""
	})
	if output, err := mediastackCluster(t, "lose", "node3"); err == nil || !strings.Contains(output, `no node "node3"`) {
		t.Errorf("the loss of a node that is not there: %v: %s", err, output)
	}
}

// proxyOf is the process of a node's kube-proxy; 0 if there is none.
func proxyOf(t *testing.T, node *runningNode) int {
	t.Helper()
	all, err := node.processes(func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		if name, err := process.Comm(); err == nil && name == "kube-proxy" {
			return process.PID
		}
	}
	return 0
}

func TestName_WrongOnesAreRejected(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "A", "a-b", strings.Repeat("a", 17)} {
		if _, err := (dataFlag{Name: name}).open(); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}
