package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// quotaPeriod is how often a group gets its share, in microseconds: short, so that a process which
// used it up continues soon.
const quotaPeriod = 20_000

// errNoQuota is the error of a machine on which this process may make no control group with a quota.
var errNoQuota = errors.New("processor time cannot be bounded here: that needs root and the cpu controller of cgroups, version 1 or 2")

// quota is a control group whose processes share a part of one core.
type quota struct{ dir string }

// newQuota makes a control group with this many percent of one core. close removes it.
func newQuota(name string, percent float64) (*quota, error) {
	share := int(percent / 100 * quotaPeriod)
	for _, version := range []struct {
		root     string
		settings map[string]string
	}{
		{"/sys/fs/cgroup", map[string]string{"cpu.max": fmt.Sprintf("%d %d", share, quotaPeriod)}},
		{"/sys/fs/cgroup/cpu", map[string]string{"cpu.cfs_period_us": strconv.Itoa(quotaPeriod), "cpu.cfs_quota_us": strconv.Itoa(share)}},
		{"/sys/fs/cgroup/cpu,cpuacct", map[string]string{"cpu.cfs_period_us": strconv.Itoa(quotaPeriod), "cpu.cfs_quota_us": strconv.Itoa(share)}},
	} {
		q := &quota{filepath.Join(version.root, fmt.Sprintf("mediastack-bench-%d-%s", os.Getpid(), name))}
		if os.Mkdir(q.dir, 0o755) != nil {
			continue
		}
		var failed error
		for file, value := range version.settings {
			failed = errors.Join(failed, q.write(file, value))
		}
		if failed == nil {
			return q, nil
		}
		_ = os.Remove(q.dir)
	}
	return nil, errNoQuota
}

// write writes a file that the kernel has made: none is created in a directory that is no control group.
func (q *quota) write(file, value string) error {
	opened, err := os.OpenFile(filepath.Join(q.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = opened.WriteString(value)
	return errors.Join(err, opened.Close())
}

// add moves a process into the group.
func (q *quota) add(pid int) error { return q.write("cgroup.procs", strconv.Itoa(pid)) }

// close moves the group's processes to its parent, and removes it.
func (q *quota) close() error {
	members, err := os.ReadFile(filepath.Join(q.dir, "cgroup.procs"))
	parent := &quota{filepath.Dir(q.dir)}
	for pid := range strings.FieldsSeq(string(members)) {
		_ = parent.write("cgroup.procs", pid) // one that has ended cannot be moved
	}
	return errors.Join(err, os.Remove(q.dir))
}
