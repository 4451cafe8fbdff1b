package wait

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = strings.TrimSpace(format)
	panic(r)
}

// failed returns whether do failed the test.
func failed(t *testing.T, do func(testing.TB)) (is bool) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if got := recover(); got != nil {
			if got != any(r) {
				panic(got)
			}
			is = true
		}
	}()
	do(r)
	return false
}

func TestUntil_ReturnsWhenTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Until(t, "half a second is over", func() bool { return time.Since(began) >= 500*time.Millisecond })
		if took := time.Since(began); took > 500*time.Millisecond+maxPause {
			t.Errorf("it took %s", took)
		}
	})
}

// 200 tries in 10 s, by each of several tests at a time, took a large part of the processors.
func TestUntil_TriesLessOftenTheLongerItWaits(t *testing.T) {
	for wait, most := range map[time.Duration]int{10 * time.Millisecond: 6, 100 * time.Millisecond: 9, time.Second: 20, 10 * time.Second: 65} {
		synctest.Test(t, func(t *testing.T) {
			began, tries := time.Now(), 0
			Until(t, "the time is over", func() bool { tries++; return time.Since(began) >= wait })
			if late := time.Since(began) - wait; late > min(max(shortPause, wait/5), maxPause) {
				t.Errorf("a wait of %s ended %s late", wait, late)
			}
			if tries > most {
				t.Errorf("a wait of %s took %d tries, want at most %d", wait, tries, most)
			}
		})
	}
}

// A condition that asks a busy server is tried half of the time at most.
func TestUntil_PausesAsLongAsATryTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		Until(t, "the time is over", func() bool { tries++; time.Sleep(20 * time.Millisecond); return time.Since(began) >= time.Second })
		if tries > 1000/40+1 {
			t.Errorf("there were %d tries of 20 ms in a second", tries)
		}
	})
}

func TestUntil_FailsAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !failed(t, func(t testing.TB) { Until(t, "never", func() bool { return false }) }) {
			t.Error("it did not fail")
		}
		if took := time.Since(began); took < Timeout(t) || took > Timeout(t)+2*maxPause {
			t.Errorf("it took %s", took)
		}
	})
}

// A condition whose one try takes longer than the timeout is tried once more.
func TestUntil_TriesAgainAfterASlowTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		Until(t, "the second try", func() bool { tries++; time.Sleep(2 * Timeout(t)); return tries == 2 })
	})
}

func TestUntilNone_FailsWithTheLastProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if !failed(t, func(t testing.TB) { UntilNone(t, func() string { return "it is missing" }) }) {
			t.Error("it did not fail")
		}
		UntilNone(t, func() string { return "" })
	})
}

func TestUntilNoneWithin_WaitsForTheLongerOfLimitAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{time.Millisecond, 3 * Timeout(t)} {
			began, want := time.Now(), max(limit, Timeout(t))
			if !failed(t, func(t testing.TB) { UntilNoneWithin(t, limit, func() string { return "it is missing" }) }) {
				t.Error("it did not fail")
			}
			if took := time.Since(began); took < want || took > want+2*maxPause {
				t.Errorf("with a limit of %s it took %s", limit, took)
			}
		}
		UntilNoneWithin(t, time.Millisecond, func() string { return "" })
	})
}

func TestReceive_ReturnsTheValueOrFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int, 1)
		go func() { time.Sleep(time.Second); values <- 7 }()
		if got := Receive(t, "a value", values); got != 7 {
			t.Errorf("got %d", got)
		}
		if !failed(t, func(t testing.TB) { Receive(t, "another value", values) }) {
			t.Error("it did not fail")
		}
		close(values)
		Receive(t, "the end", values)
	})
}
