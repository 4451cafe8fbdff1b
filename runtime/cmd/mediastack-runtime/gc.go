package main

import (
	"math"
	"os"
	"runtime/debug"
)

// limitedGCPercent is the value of GOGC under a memory limit. The garbage of a request is short-lived:
// the collector takes a fifth of the processor time of a list at 100, the default. With a limit, the
// collector runs more often as the memory comes near it, so that the peak stays below it.
const limitedGCPercent = 400

// setGC makes the garbage collector run less often if the process has a memory limit (GOMEMLIMIT),
// unless GOGC is set.
func setGC() {
	if os.Getenv("GOGC") == "" && debug.SetMemoryLimit(-1) != math.MaxInt64 {
		debug.SetGCPercent(limitedGCPercent)
	}
}
