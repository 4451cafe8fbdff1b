package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archSyscalls are the system calls that only this architecture has.
var archSyscalls []uint32
