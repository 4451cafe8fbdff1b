package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of the processes in tables.
const (
	client   = "client"
	postgres = "PostgreSQL"
	store    = "S3"
	service  = "runtime"
	bare     = "bare"
	proxy    = "proxy"
	bareSDK  = "bare SDK"
	vips     = "vips"
	workers  = "imaging" // of the runtime, and counted there too
)

// ticks is how many of the kernel's units of CPU time make a second; Linux shows it so to all programs.
const ticks = 100

// stat is the state in /proc of a process.
type stat struct {
	parent        int
	own, children float64 // CPU seconds: its own, and of children that have ended
}

// readStats reads the state of all processes.
func readStats() (map[int]stat, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	stats := map[int]stat{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		// The name before it is in brackets and may hold anything.
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		const parent, utime, childrenUtime = 1, 11, 13
		if len(fields) <= childrenUtime+1 {
			return nil, fmt.Errorf("%s has %d fields", path, len(fields))
		}
		var numbers [5]float64
		for i, at := range []int{parent, utime, utime + 1, childrenUtime, childrenUtime + 1} {
			if numbers[i], err = strconv.ParseFloat(fields[at], 64); err != nil {
				return nil, err
			}
		}
		stats[pid] = stat{parent: int(numbers[0]), own: (numbers[1] + numbers[2]) / ticks, children: (numbers[3] + numbers[4]) / ticks}
	}
	return stats, nil
}

// tree returns a process and all its descendants.
func tree(stats map[int]stat, root int) []int {
	found := []int{root}
	for i := 0; i < len(found); i++ {
		for pid, s := range stats {
			if s.parent == found[i] {
				found = append(found, pid)
			}
		}
	}
	return found
}

// usage is CPU seconds by the name of a process.
type usage map[string]float64

// cpu reads what the watched processes have used so far, their descendants included.
func (env *environment) cpu() (usage, error) {
	stats, err := readStats()
	if err != nil {
		return nil, err
	}
	self := stats[os.Getpid()]
	// What this program runs and waits for is the vips command line.
	used := usage{client: self.own, vips: self.children}
	for name, pid := range env.watched {
		for _, member := range tree(stats, pid) {
			seconds := stats[member].own + stats[member].children
			used[name] += seconds
			if name == service && member != pid {
				used[workers] += seconds
			}
		}
	}
	return used, nil
}

// since returns what was used after before.
func (u usage) since(before usage) usage {
	used := usage{}
	for name, seconds := range u {
		used[name] = max(0, seconds-before[name])
	}
	return used
}

// columns are the processes that a table shows, in order.
func (env *environment) columns(all ...string) []string {
	var shown []string
	for _, name := range all {
		if _, ok := env.watched[name]; ok || name == client || name == vips || name == workers {
			shown = append(shown, name)
		}
	}
	return shown
}

// memoryOf reads a figure of /proc/PID/status, such as VmHWM, in MiB; false when the process has ended.
func memoryOf(pid int, figure string) (float64, bool) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	defer status.Close()
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), figure+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kib / 1024, err == nil
		}
	}
	return 0, false
}
