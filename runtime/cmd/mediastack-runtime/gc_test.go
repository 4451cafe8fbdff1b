package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestSetGC_RaisesTheTargetUnderAMemoryLimitOnly(t *testing.T) { //nolint:paralleltest // the settings are those of the process
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}()
	for _, c := range []struct {
		gogc  string
		limit int64
		want  int
	}{
		{"", math.MaxInt64, 100},
		{"", 768 << 20, limitedGCPercent},
		{"150", 768 << 20, 100}, // the Go runtime has read GOGC
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(c.limit)
		t.Setenv("GOGC", c.gogc)
		setGC()
		if got := debug.SetGCPercent(100); got != c.want {
			t.Errorf("with GOGC=%q and a limit of %d, the target is %d, not %d", c.gogc, c.limit, got, c.want)
		}
	}
}
