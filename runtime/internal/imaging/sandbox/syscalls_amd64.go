package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// archSyscalls are the system calls that only this architecture has.
var archSyscalls = []uint32{unix.SYS_POLL, unix.SYS_EPOLL_WAIT, unix.SYS_TIME, unix.SYS_GETRLIMIT}
