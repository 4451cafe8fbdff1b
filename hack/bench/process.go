package main

import (
	"os"

	"github.com/prometheus/procfs"
)

// Names of the processes in tables.
const (
	client   = "client"
	postgres = "PostgreSQL"
	store    = "S3"
	scans    = "clamd"
	storeTLS = "S3, TLS"
	service  = "runtime"
	bare     = "bare"
	proxy    = "proxy"
	vips     = "vips"
	workers  = "imaging" // of the runtime, and counted there too
)

// ticks is how many of the kernel's units of CPU time make a second; Linux shows it so to all programs.
const ticks = 100

// readStats reads the state of all processes, by their ids.
func readStats() (map[int]procfs.ProcStat, error) {
	processes, err := procfs.AllProcs()
	stats := map[int]procfs.ProcStat{}
	for _, process := range processes {
		if stat, err := process.Stat(); err == nil { // otherwise it has just ended
			stats[process.PID] = stat
		}
	}
	return stats, err
}

// ownTime is the CPU seconds of a process, childrenTime those of its children that have ended.
func ownTime(s procfs.ProcStat) float64      { return float64(s.UTime+s.STime) / ticks }
func childrenTime(s procfs.ProcStat) float64 { return float64(s.CUTime+s.CSTime) / ticks }

// tree returns a process and all its descendants.
func tree(stats map[int]procfs.ProcStat, root int) []int {
	found := []int{root}
	for i := 0; i < len(found); i++ {
		for pid, s := range stats {
			if s.PPID == found[i] {
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
	used := usage{client: ownTime(self), vips: childrenTime(self)}
	for name, pid := range env.watched {
		for _, member := range tree(stats, pid) {
			seconds := ownTime(stats[member]) + childrenTime(stats[member])
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

// memoryOf returns how much memory a process has; nothing when it has ended.
func memoryOf(pid int) procfs.ProcStatus {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStatus{}
	}
	status, _ := process.NewStatus()
	return status
}

func mebibytes(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
