package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNoMemoryGroup is the error on a machine where this program may not make a cgroup with a limit on memory.
var errNoMemoryGroup = errors.New("this program may make no cgroup with a limit on memory: it needs root, and the controller memory of cgroup v1, or of v2 where it is enabled for children of the root")

// cgroups is where Linux distributions mount the hierarchies.
const cgroups = "/sys/fs/cgroup"

// memoryGroup is a cgroup with a limit on the memory of its processes, the page cache of what they read and write included.
type memoryGroup struct {
	dir  string
	peak string // the file with the largest use
}

// makeMemoryGroup makes an empty group, of cgroup v1 or v2, whichever the machine has. Its processes do not swap.
func makeMemoryGroup(name string, limit int64) (*memoryGroup, error) {
	var failed []error
	for _, version := range []struct{ parent, limit, swap, swapLimit, peak string }{
		{filepath.Join(cgroups, "memory"), "memory.limit_in_bytes", "memory.swappiness", "0", "memory.max_usage_in_bytes"},
		{cgroups, "memory.max", "memory.swap.max", "0", "memory.peak"},
	} {
		if _, err := os.Stat(filepath.Join(version.parent, "cgroup.procs")); err != nil {
			failed = append(failed, err)
			continue
		}
		if version.limit == "memory.max" { // fails where it is enabled already, or may not be: the limit shows it
			_ = os.WriteFile(filepath.Join(version.parent, "cgroup.subtree_control"), []byte("+memory"), 0)
		}
		g := &memoryGroup{dir: filepath.Join(version.parent, name), peak: version.peak}
		err := os.Mkdir(g.dir, 0o755)
		if err == nil {
			err = g.set(version.limit, strconv.FormatInt(limit, 10))
			if err == nil {
				_ = g.set(version.swap, version.swapLimit) // a kernel without swap has no such file
				return g, nil
			}
			g.close()
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("%w: %w", errNoMemoryGroup, errors.Join(failed...))
}

// set writes a file of the group. It makes none: what the kernel does not have is an error.
func (g *memoryGroup) set(name, value string) error {
	file, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// add moves processes that have not ended into the group. Those that they start from then on are in it, too.
func (g *memoryGroup) add(pids ...int) error {
	for _, pid := range pids {
		err := g.set("cgroup.procs", strconv.Itoa(pid))
		if err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
			return fmt.Errorf("limit the memory of process %d: %w", pid, err)
		}
	}
	return nil
}

// used returns the largest memory that the group has had, in bytes; 0 on a kernel that does not record it.
func (g *memoryGroup) used() int64 {
	text, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		return 0
	}
	bytes, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes
}

// close removes the group. Its processes have ended, or are about to.
func (g *memoryGroup) close() {
	for range 100 {
		if err := os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
