package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mediastack.dev/hack/servers"
)

const (
	// memory is where Linux has a file system in memory.
	memory = "/dev/shm"
	// memoryNeeded is how much of it must be free: the data of all servers of a run stays below.
	memoryNeeded = 6 << 30
)

// parents returns the directories in which those of test processes may be, the best one first. Servers
// that make, sync and remove thousands of files, as a database of each test does, are several times
// faster in memory. A directory that TMPDIR names is the only one.
func parents() []string {
	var found []string
	if os.Getenv("TMPDIR") == "" && servesStores(memory) {
		found = append(found, memory)
	}
	if dir := os.TempDir(); servers.PostgresCanReach(dir) {
		return append(found, dir)
	}
	return append(found, "/tmp")
}

// servesStores reports whether the file system has room and what the S3 stores need of one: attributes
// of users, and direct I/O. One in memory has both since Linux 6.6.
func servesStores(dir string) bool {
	var system unix.Statfs_t
	if unix.Statfs(dir, &system) != nil || system.Bavail*uint64(system.Bsize) < memoryNeeded || available() < memoryNeeded {
		return false
	}
	probe, err := os.CreateTemp(dir, dirPrefix+"probe-")
	if err != nil {
		return false
	}
	defer func() { _ = probe.Close(); _ = os.Remove(probe.Name()) }()
	if unix.Fsetxattr(int(probe.Fd()), "user.mediastack", []byte("1"), 0) != nil {
		return false
	}
	direct, err := os.OpenFile(probe.Name(), os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return false
	}
	_ = direct.Close()
	return servers.PostgresCanReach(filepath.Dir(probe.Name()))
}

// available returns the bytes of memory that programs can still use, the file cache included.
func available() uint64 {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if value, is := strings.CutPrefix(line, "MemAvailable:"); is {
			var kilobytes uint64
			if _, err := fmt.Sscanf(value, "%d kB", &kilobytes); err != nil {
				return 0
			}
			return kilobytes << 10
		}
	}
	return 0
}
