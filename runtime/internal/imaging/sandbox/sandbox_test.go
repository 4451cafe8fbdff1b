package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mediastack.dev/runtime/internal/imaging/sandbox"
)

// childArgument makes the test binary apply the sandbox and try to escape.
const childArgument = "sandboxed"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childArgument {
		runSandboxed(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// attempts are actions of a compromised decoder.
var attempts = map[string]func(folder string) error{
	"read /etc/passwd": func(string) error { _, err := os.ReadFile("/etc/passwd"); return err },
	"read the parent's environment": func(string) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	},
	"write a file":                func(folder string) error { return os.WriteFile(filepath.Join(folder, "x"), []byte("x"), 0o600) },
	"list a folder":               func(string) error { _, err := os.ReadDir("/"); return err },
	"look at a file":              func(string) error { _, err := os.Stat("/etc/passwd"); return err },
	"remove a file":               func(folder string) error { return os.Remove(filepath.Join(folder, "there")) },
	"open by openat2":             func(string) error { return fd(unix.Openat2(unix.AT_FDCWD, "/etc/passwd", &unix.OpenHow{})) },
	"memory with a name":          func(string) error { return fd(unix.MemfdCreate("x", 0)) },
	"a TCP socket":                func(string) error { return fd(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)) },
	"a UDP socket":                func(string) error { return fd(unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)) },
	"a Unix socket":               func(string) error { return fd(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)) },
	"a netlink socket":            func(string) error { return fd(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)) },
	"a pair of sockets":           func(string) error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"dial":                        func(string) error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err },
	"execve":                      func(string) error { return unix.Exec("/bin/true", []string{"true"}, nil) },
	"start a program":             func(string) error { return exec.Command("/bin/true").Run() },
	"a new process":               func(string) error { return raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) },
	"ptrace":                      func(string) error { return unix.PtraceAttach(os.Getppid()) },
	"read another's memory":       func(string) error { return readParent() },
	"kill the parent":             func(string) error { return unix.Kill(os.Getppid(), 0) },
	"kill a thread of the parent": func(string) error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) },
	"raise a limit":               func(string) error { return unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 8, Max: 8}, nil) },
	"change the parent's limits": func(string) error {
		return unix.Prlimit(os.Getppid(), unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	},
	"be dumpable":    func(string) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) },
	"another user":   func(string) error { return raw(unix.SYS_SETUID, 0) },
	"a namespace":    func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"mount":          func(folder string) error { return unix.Mount("x", folder, "tmpfs", 0, "") },
	"io_uring":       func(string) error { return raw(unix.SYS_IO_URING_SETUP, 1) },
	"bpf":            func(string) error { return raw(unix.SYS_BPF, 0) },
	"device control": func(string) error { _, err := unix.IoctlGetInt(0, unix.TIOCINQ); return err },
}

func fd(fd int, err error) error {
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func raw(number uintptr, argument uintptr) error {
	result, _, errno := unix.RawSyscall(number, argument, 0, 0)
	if errno != 0 {
		return errno
	}
	if number == unix.SYS_CLONE && result == 0 {
		unix.Exit(0) // a child process, which should not exist
	}
	return nil
}

func readParent() error {
	var b [1]byte
	_, err := unix.ProcessVMReadv(os.Getppid(), []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
	return err
}

// report is the output of the sandboxed process.
type report struct {
	Applied sandbox.Applied
	Denied  []string
	Got     map[string]string // by attempt; empty = it succeeded
	Memory  string
	Threads bool
	Before  map[string]string // the attempts in harmless, without the sandbox
}

func runSandboxed(folder string) {
	r := report{Got: map[string]string{}, Before: map[string]string{}}
	// Harmless attempts are made without the sandbox first: one that always fails proves nothing.
	for _, name := range harmless {
		r.Before[name] = text(attempts[name](folder))
	}
	var denied []error
	r.Applied, denied = sandbox.Apply(sandbox.Limits{Memory: 512 << 20})
	for _, err := range denied {
		r.Denied = append(r.Denied, err.Error())
	}
	for name, attempt := range attempts {
		r.Got[name] = text(attempt(folder))
	}
	_, err := unix.Mmap(-1, 0, 600<<20, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	r.Memory = text(err)
	// The Go runtime still works: threads, memory, time.
	done := make(chan int)
	for i := range 50 {
		go func() { done <- len(make([]byte, 1<<20)) + i }()
	}
	for range 50 {
		<-done
	}
	r.Threads = true
	_ = json.NewEncoder(os.Stdout).Encode(r)
}

// harmless are the attempts that succeed without the sandbox and have no lasting effect.
var harmless = []string{"read /etc/passwd", "read the parent's environment", "list a folder", "look at a file", "a TCP socket", "a Unix socket", "a pair of sockets", "start a program", "a new process", "kill the parent", "write a file", "memory with a name", "be dumpable"}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestApply_DeniesEveryAttempt(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), own, childArgument, folder)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := (sandbox.Applied{Limits: true, Privileges: true, Syscalls: true}); r.Applied != want || len(r.Denied) > 0 {
		t.Fatalf("applied: %+v, denied: %v", r.Applied, r.Denied)
	}
	for name, failed := range r.Before {
		if failed != "" {
			t.Errorf("%s fails without the sandbox too: %s", name, failed)
		}
	}
	if len(r.Got) != len(attempts) {
		t.Errorf("%d of %d attempts were made", len(r.Got), len(attempts))
	}
	for name, got := range r.Got {
		if !strings.Contains(got, syscall.EPERM.Error()) {
			t.Errorf("%s: %q, want it not permitted", name, got)
		}
	}
	if _, err := os.Stat(there); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.Memory, syscall.ENOMEM.Error()) {
		t.Errorf("more memory than allowed: %q", r.Memory)
	}
	if !r.Threads {
		t.Error("threads do not work any more")
	}
}
