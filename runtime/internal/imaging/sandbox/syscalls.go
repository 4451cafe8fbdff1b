package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowedSyscalls are the system calls that the Go runtime, glibc and libvips need once
// everything is loaded: memory, threads, time, signals to the process itself, and reads
// and writes of open files. Calls that open, connect, execute or inspect another process
// are missing; filter allows a few more by their arguments.
var allowedSyscalls = []uint32{
	// Open files.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_FSTAT,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PPOLL,
	// Memory.
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MINCORE,
	// Threads.
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_MEMBARRIER, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	// Signals.
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	// Time and random numbers.
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
	unix.SYS_GETRUSAGE,
}

// Offsets into struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const retAllow = unix.SECCOMP_RET_ALLOW

func retErrno(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) } //nolint:gosec // error numbers are small

// filter returns the BPF program: listed system calls are allowed, all others fail with
// EPERM.
func filter(pid uint32) []unix.SockFilter {
	program := []unix.SockFilter{
		load(offsetArch),
		jumpIfEqual(auditArch, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS), // system calls of another architecture: never an accident
		load(offsetNumber),
	}
	for _, number := range slices.Concat(allowedSyscalls, archSyscalls) {
		program = append(program, jumpIfEqual(number, 0, 1), ret(retAllow))
	}
	for _, rule := range [][]unix.SockFilter{
		// New threads, no new processes.
		onSyscall(unix.SYS_CLONE, load(argument(0)), jumpIfSet(unix.CLONE_THREAD, 0, 1), ret(retAllow), ret(retErrno(unix.EPERM))),
		// Its flags are in memory, which a filter can't read; glibc falls back to clone.
		onSyscall(unix.SYS_CLONE3, ret(retErrno(unix.ENOSYS))),
		// The Go runtime interrupts its own threads.
		onSyscall(unix.SYS_TGKILL, load(argument(0)), jumpIfEqual(pid, 0, 1), ret(retAllow), ret(retErrno(unix.EPERM))),
		// Naming threads and memory.
		onSyscall(unix.SYS_PRCTL, load(argument(0)), jumpIfEqual(unix.PR_SET_NAME, 1, 0), jumpIfEqual(unix.PR_SET_VMA, 0, 1), ret(retAllow), ret(retErrno(unix.EPERM))),
		// Reading own limits: process 0, and no new limit.
		onSyscall(unix.SYS_PRLIMIT64, load(argument(0)), jumpIfEqual(0, 0, 5), load(argument(2)), jumpIfEqual(0, 0, 3), load(argument(2)+4), jumpIfEqual(0, 0, 1), ret(retAllow), ret(retErrno(unix.EPERM))),
	} {
		program = append(program, rule...)
	}
	return append(program, ret(retErrno(unix.EPERM)))
}

// onSyscall applies a rule, which must return, to one system call.
func onSyscall(number uint32, rule ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jumpIfEqual(number, 0, uint8(len(rule)))}, rule...) //nolint:gosec // rules are short
}

// argument returns the offset of the low half of an argument; both architectures are little-endian.
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

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// filterSyscalls installs the filter for all threads at once.
func filterSyscalls() error {
	program := filter(uint32(os.Getpid()))                                                                                                           //nolint:gosec // a process id is positive
	code := unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)}                                                             //nolint:gosec // a hundred instructions
	failed, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&code))) //nolint:gosec // the kernel reads it during the call
	switch {
	case errors.Is(errno, unix.ENOSYS):
		return errors.New("the kernel has no seccomp")
	case errno != 0:
		return errno
	case failed != 0:
		return fmt.Errorf("thread %d has a different seccomp filter", failed)
	}
	return nil
}
