// Package sandbox restricts the current process by rlimits, no_new_privs and seccomp: no
// memory over a limit, no files, sockets or other programs, no new privileges.
// cmd/mediastack-imaging applies it before it reads the first byte of a file, so that a
// compromised decoder can do no more than return a wrong image.
package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Limits bounds the resources of the process.
type Limits struct {
	// Memory is how much the address space may grow after Apply, in bytes. 0 = no limit.
	Memory uint64
}

// maxFiles leaves room for the pipes and the poller of the Go runtime.
const maxFiles = 16

// Applied are the layers in effect. They are independent of each other.
type Applied struct {
	Limits     bool // rlimits: memory, open files, no writes to files, no core dumps
	Privileges bool // no_new_privs, and not dumpable: no ptrace by processes of the same user
	Syscalls   bool // seccomp: system calls that decoding needs
}

// Apply restricts the whole process, with all threads, for good. The kernel or a container
// may deny a layer: there is an error for each of those, and the others are in effect.
func Apply(limits Limits) (Applied, []error) {
	var applied Applied
	var errs []error
	record := func(layer string, applied *bool, err error) {
		if *applied = err == nil; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", layer, err))
		}
	}
	record("limits", &applied.Limits, setLimits(limits))
	record("privileges", &applied.Privileges, dropPrivileges())
	record("system calls", &applied.Syscalls, filterSyscalls())
	return applied, errs
}

func setLimits(limits Limits) error {
	rlimits := []struct {
		name     string
		resource int
		limit    uint64
	}{
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"open files", unix.RLIMIT_NOFILE, maxFiles},
	}
	if limits.Memory > 0 {
		used, err := addressSpace()
		if err != nil {
			return err
		}
		rlimits = append(rlimits, struct {
			name     string
			resource int
			limit    uint64
		}{"address space", unix.RLIMIT_AS, used + limits.Memory})
	}
	for _, r := range rlimits {
		if err := unix.Setrlimit(r.resource, &unix.Rlimit{Cur: r.limit, Max: r.limit}); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// addressSpace returns the bytes of address space that are in use.
func addressSpace() (uint64, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		return 0, fmt.Errorf("read the address space in use: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil //nolint:gosec // a page size is positive
}

func dropPrivileges() error {
	// The seccomp filter sets this bit for the other threads.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	return nil
}
