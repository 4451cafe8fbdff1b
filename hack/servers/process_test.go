package servers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

// portEnv makes the test binary a program that chooses a port, tells it, and waits to be killed.
const portEnv = "STACK_TEST_PORT"

// supervisorEnv makes the test binary play a supervisor that another test kills.
const supervisorEnv = "STACK_TEST_SUPERVISOR"

func TestMain(m *testing.M) {
	if os.Getenv(supervisorEnv) != "" {
		playSupervisor()
	}
	if os.Getenv(portEnv) != "" {
		fmt.Println(servers.FreePort())
		// Not select: a program whose goroutines all wait ends by itself.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// playSupervisor starts two children, tells their ids, and waits to be killed.
func playSupervisor() {
	group := servers.NewGroup()
	for range 2 {
		child, err := group.Start(context.Background(), shell("child", "", "exec sleep 600"))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(child.PID())
	}
	select {}
}

func shell(name, logFile, script string) servers.Spec {
	return servers.Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, LogFile: logFile}
}

func newGroup(t *testing.T) *servers.Group {
	t.Helper()
	group := servers.NewGroup()
	t.Cleanup(group.Close)
	return group
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	// An orphan that nobody has waited for yet is dead all the same.
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestGroup_ChildrenDieWithAKilledSupervisor(t *testing.T) {
	t.Parallel()
	supervisor := exec.CommandContext(t.Context(), os.Args[0])
	supervisor.Env = append(os.Environ(), supervisorEnv+"=1")
	output, err := supervisor.StdoutPipe()
	must(t, err)
	must(t, supervisor.Start())
	var children []int
	lines := bufio.NewScanner(output)
	for len(children) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the supervisor says %q", lines.Text())
		}
		children = append(children, pid)
	}
	if len(children) < 2 {
		t.Fatal("the supervisor started too few children")
	}
	must(t, supervisor.Process.Kill())
	_ = supervisor.Wait()
	for _, pid := range children {
		wait.Until(t, fmt.Sprintf("child %d is gone", pid), func() bool { return !alive(pid) })
	}
}

func TestGroup_ChildrenShareAProcessGroup(t *testing.T) {
	t.Parallel()
	group := newGroup(t)
	var groups []int
	for range 2 {
		child, err := group.Start(t.Context(), shell("child", "", "exec sleep 600"))
		must(t, err)
		id, err := syscall.Getpgid(child.PID())
		must(t, err)
		groups = append(groups, id)
	}
	if groups[0] != groups[1] || groups[0] == syscall.Getpgrp() {
		t.Errorf("children are in the groups %v, the supervisor is in %d", groups, syscall.Getpgrp())
	}
}

func TestGroup_StartsAfterAllMembersEnded(t *testing.T) {
	t.Parallel()
	group := newGroup(t)
	for range 3 {
		must(t, group.Run(t.Context(), shell("short", "", "exit 0")))
	}
}

func TestClose_LeavesNoGrandchildren(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	group := servers.NewGroup()
	_, err := group.Start(t.Context(), servers.Spec{
		Name: "parent", Path: "/bin/sh",
		Args: []string{"-c", "sleep 600 & echo $! > " + pidFile + ".new && mv " + pidFile + ".new " + pidFile + "; wait"},
		Ready: func(context.Context) error {
			_, err := os.Stat(pidFile)
			return err
		},
	})
	must(t, err)
	content, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	must(t, err)
	group.Close()
	wait.Until(t, "the grandchild is gone", func() bool { return !alive(pid) })
}

func TestDead_ReportsTheLogLineThatExplains(t *testing.T) {
	t.Parallel()
	group := newGroup(t)
	log := filepath.Join(t.TempDir(), "part.log")
	must(t, os.WriteFile(log, []byte("fatal: a line of an earlier run\n"), 0o600))
	part, err := group.Start(t.Context(), shell("the part", log, "echo starting; echo no space left; exit 3"))
	must(t, err)
	dead := group.Dead(t.Context())
	<-part.Done()
	var exit *servers.ExitError
	if !errors.As(dead, &exit) {
		t.Fatalf("got %v, want an ExitError", dead)
	}
	want := "the part stopped by itself (exit status 3); its log " + log + " says: no space left"
	if dead.Error() != want {
		t.Errorf("got  %s\nwant %s", dead, want)
	}
}

func TestStart_ReportsAnExitBeforeReady(t *testing.T) {
	t.Parallel()
	group := newGroup(t)
	log := filepath.Join(t.TempDir(), "part.log")
	spec := shell("the part", log, "echo 'listen: address already in use'; echo bye; exit 1")
	spec.Ready = func(context.Context) error { return errors.New("not yet") }
	_, err := group.Start(t.Context(), spec)
	var exit *servers.ExitError
	if !errors.As(err, &exit) || exit.LastLine != "listen: address already in use" {
		t.Errorf("got %v", err)
	}
}

func TestStart_EndsAProcessThatIsNeverReady(t *testing.T) {
	t.Parallel()
	group := newGroup(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	spec := shell("the part", "", "echo $$ > "+pidFile+"; exec sleep 600")
	spec.ReadyTimeout = 200 * time.Millisecond
	spec.Ready = func(context.Context) error {
		// The process lives for long enough to tell its id, however slow the machine is.
		wait.Until(t, "the part has begun", func() bool { content, _ := os.ReadFile(pidFile); return bytes.HasSuffix(content, []byte("\n")) })
		return errors.New("still asleep")
	}
	_, err := group.Start(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "the part did not start: it was not ready after 200ms") {
		t.Fatalf("got %v", err)
	}
	content, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	must(t, err)
	if alive(pid) {
		t.Error("the part still runs")
	}
}

func TestStop_KillsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	group := newGroup(t)
	ready := filepath.Join(t.TempDir(), "ready")
	spec := shell("the part", "", "trap '' TERM; touch "+ready+"; while :; do sleep 1; done")
	spec.Grace = 100 * time.Millisecond
	spec.Ready = func(context.Context) error {
		_, err := os.Stat(ready)
		return err
	}
	part, err := group.Start(t.Context(), spec)
	must(t, err)
	part.Stop()
	if err := part.Err(); err != nil {
		t.Errorf("a part that was stopped reports %v", err)
	}
}

func TestChoosePort_ReportsAPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	port := listener.Addr().(*net.TCPAddr).Port
	_, err = servers.ChoosePort(port)
	if want := fmt.Sprintf("port %d is already in use", port); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFreePort_IsNeverReturnedTwice(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 200 {
		port, err := servers.FreePort()
		must(t, err)
		if seen[port] {
			t.Fatalf("port %d was given out twice", port)
		}
		seen[port] = true
	}
}

func TestFreePort_IsReservedWhileItsProgramRuns(t *testing.T) {
	t.Parallel()
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), portEnv+"=1")
	_, err := other.StdinPipe() // open until the program ends
	must(t, err)
	output, err := other.StdoutPipe()
	must(t, err)
	must(t, other.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	must(t, err)
	var port int
	if _, err := fmt.Sscanf(line, "%d <nil>", &port); err != nil {
		t.Fatalf("the other program chose no port: %q", line)
	}
	reserved, err := servers.ReservePort(port)
	must(t, err)
	if reserved {
		t.Errorf("port %d, which another program has reserved, was reserved again", port)
	}
	if got, err := servers.ChoosePort(port); err != nil || got != port {
		t.Errorf("a port that the caller names: got %d, %v", got, err)
	}
	must(t, other.Process.Kill())
	_ = other.Wait()
	if reserved, err = servers.ReservePort(port); err != nil || !reserved {
		t.Errorf("after the end of the program: reserved %t, %v", reserved, err)
	}
}

func TestPostgresCanReach_NeedsPassableParents(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("PostgreSQL runs as the caller, who can reach what he names")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	must(t, os.Mkdir(closed, 0o700))
	if got, want := servers.PostgresCanReach(filepath.Join(closed, "data")), os.Getuid() != 0; got != want {
		t.Errorf("below a directory that only its owner may pass: %t, want %t", got, want)
	}
	if !servers.PostgresCanReach("/") {
		t.Error("not even / can be reached")
	}
}
