package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// common are the system calls that the Go runtime, glibc and libvips need once
// everything is loaded: memory, threads, time, signals to itself, and reading and
// writing what is open. What opens, connects, runs or looks at another process is
// not among them; a few more are allowed by their arguments, in filter.
var common = []uint32{
	// What is open.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_FSTAT,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PPOLL,
	// Memory.
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MINCORE,
	// Threads.
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_MEMBARRIER, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	// Signals.
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	// Time and chance.
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
	unix.SYS_GETRUSAGE,
}

// Offsets into struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const allow = unix.SECCOMP_RET_ALLOW

func refuse(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) } //nolint:gosec // error numbers are small

// filter is a program that allows what is listed and refuses the rest with EPERM.
func filter(pid uint32) []unix.SockFilter {
	program := []unix.SockFilter{
		load(offsetArch),
		jumpIfEqual(auditArch, 1, 0),
		give(unix.SECCOMP_RET_KILL_PROCESS), // another architecture's numbers: nobody asks for that by accident
		load(offsetNumber),
	}
	for _, number := range append(common[:len(common):len(common)], ofArchitecture...) {
		program = append(program, jumpIfEqual(number, 0, 1), give(allow))
	}
	for _, rule := range [][]unix.SockFilter{
		// New threads, no new processes.
		when(unix.SYS_CLONE, load(argument(0)), jumpIfSet(unix.CLONE_THREAD, 0, 1), give(allow), give(refuse(unix.EPERM))),
		// Its flags lie in memory, where a filter can't look; glibc then takes clone.
		when(unix.SYS_CLONE3, give(refuse(unix.ENOSYS))),
		// The Go runtime interrupts its own threads.
		when(unix.SYS_TGKILL, load(argument(0)), jumpIfEqual(pid, 0, 1), give(allow), give(refuse(unix.EPERM))),
		// Naming threads and memory.
		when(unix.SYS_PRCTL, load(argument(0)), jumpIfEqual(unix.PR_SET_NAME, 1, 0), jumpIfEqual(unix.PR_SET_VMA, 0, 1), give(allow), give(refuse(unix.EPERM))),
		// Reading own limits: process 0, and no new limit.
		when(unix.SYS_PRLIMIT64, load(argument(0)), jumpIfEqual(0, 0, 5), load(argument(2)), jumpIfEqual(0, 0, 3), load(argument(2)+4), jumpIfEqual(0, 0, 1), give(allow), give(refuse(unix.EPERM))),
	} {
		program = append(program, rule...)
	}
	return append(program, give(refuse(unix.EPERM)))
}

// when runs the rest of a rule, which must end, for one system call.
func when(number uint32, rule ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jumpIfEqual(number, 0, uint8(len(rule)))}, rule...) //nolint:gosec // rules are short
}

// argument is the offset of the low half of an argument; both architectures are little-endian.
func argument(n uint32) uint32 { return offsetArgs + 8*n }

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jumpIfEqual(value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: value}
}

func jumpIfSet(bits uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: yes, Jf: no, K: bits}
}

func give(verdict uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
}

// filterSyscalls installs the filter for all threads at once.
func filterSyscalls() error {
	program := filter(uint32(os.Getpid()))                                                                                                           //nolint:gosec // a process id is positive
	code := unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)}                                                             //nolint:gosec // a hundred instructions
	failed, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&code))) //nolint:gosec // the kernel reads it while the call lasts
	switch {
	case errors.Is(errno, unix.ENOSYS):
		return errors.New("the kernel has no seccomp")
	case errno != 0:
		return errno
	case failed != 0:
		return fmt.Errorf("thread %d has a filter of its own", failed)
	}
	return nil
}
