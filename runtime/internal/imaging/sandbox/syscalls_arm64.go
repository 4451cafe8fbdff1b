package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// ofArchitecture are the system calls that only this architecture has.
var ofArchitecture []uint32
