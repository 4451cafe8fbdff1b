// Package sandbox takes away from a process what it will not need any more, for
// good: memory beyond a bound, files, sockets, other programs, new privileges.
// cmd/mediastack-imaging calls it before it looks at the first byte of anybody's
// file, so that a decoder which is taken over can do nothing but give a wrong image.
package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Limits are what the process may still use.
type Limits struct {
	// Memory is the address space in bytes that may be used beyond what is in use
	// when Apply is called. 0 = no limit.
	Memory uint64
}

// maxFiles is what the pipes and the Go runtime's poller need, and a little.
const maxFiles = 16

// Held tells which layers hold. They are independent: each one alone stops something.
type Held struct {
	Limits     bool // rlimits: memory, no file may grow, no core dumps
	Privileges bool // no privileges through other programs, no ptrace by equals
	Syscalls   bool // seccomp: only what decoding needs
}

// Apply locks the whole process in, all threads included. The kernel, or the
// container around, may refuse a layer: the error says which, and the others hold.
func Apply(limits Limits) (Held, []error) {
	var held Held
	var errs []error
	note := func(layer string, held *bool, err error) {
		if *held = err == nil; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", layer, err))
		}
	}
	note("limits", &held.Limits, limit(limits))
	note("privileges", &held.Privileges, dropPrivileges())
	note("system calls", &held.Syscalls, filterSyscalls())
	return held, errs
}

func limit(limits Limits) error {
	rlimits := []struct {
		what  string
		which int
		most  uint64
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
			what  string
			which int
			most  uint64
		}{"address space", unix.RLIMIT_AS, used + limits.Memory})
	}
	for _, r := range rlimits {
		if err := unix.Setrlimit(r.which, &unix.Rlimit{Cur: r.most, Max: r.most}); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
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
	// The filter carries this bit over to the other threads.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	return nil
}
