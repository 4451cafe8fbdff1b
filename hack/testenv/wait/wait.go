// Package wait is how tests wait: for a condition, or for a channel, with one timeout for the whole
// repository. A test that passes never waits for it, so it is generous; a test that fails names what
// did not happen.
package wait

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

const (
	// TimeoutEnv names the environment variable with the timeout, a Go duration. CI sets a longer one.
	TimeoutEnv = "MEDIASTACK_TEST_WAIT"

	defaultTimeout = time.Minute
	// Conditions are tried at once, and then after pauses that double up to shortPause. A longer wait tries less
	// often: after a fifth of what it has taken, at most maxPause. Most conditions ask a server, and the
	// processors of a test run are busy: tries delay what is waited for.
	minPause   = time.Millisecond
	shortPause = 50 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

var configured = sync.OnceValues(func() (time.Duration, error) {
	text := os.Getenv(TimeoutEnv)
	if text == "" {
		return defaultTimeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("%s must be a duration such as 90s, not %q", TimeoutEnv, text)
	}
	return timeout, nil
})

// Timeout returns how long a test waits before it fails. It is for timeouts of clients, too, which
// would otherwise end a wait earlier.
func Timeout(t testing.TB) time.Duration {
	t.Helper()
	timeout, err := configured()
	if err != nil {
		t.Fatal(err)
	}
	return timeout
}

// Until returns when the condition holds. The test fails if it does not within the timeout; what names
// the condition: "the draft is purged". The condition runs on the goroutine of the caller, which must be
// that of the test.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !poll(Timeout(t), condition) {
		t.Fatalf("it did not happen within %s: %s", Timeout(t), what)
	}
}

// UntilNone returns when problem returns an empty text. The test fails with its last text if it does not
// within the timeout.
func UntilNone(t testing.TB, problem func() string) {
	t.Helper()
	untilNone(t, Timeout(t), problem)
}

// UntilNoneWithin is UntilNone for what takes minutes by itself, such as a rollout of a real cluster: it
// waits for the limit, or for the timeout if that is longer.
func UntilNoneWithin(t testing.TB, limit time.Duration, problem func() string) {
	t.Helper()
	untilNone(t, max(limit, Timeout(t)), problem)
}

func untilNone(t testing.TB, timeout time.Duration, problem func() string) {
	t.Helper()
	var last string
	if !poll(timeout, func() bool { last = problem(); return last == "" }) {
		t.Fatalf("after %s: %s", timeout, last)
	}
}

// Receive returns the next value of the channel, or the zero value when it is closed. The test fails if
// neither happens within the timeout; what names the event: "the worker has ended".
func Receive[T any](t testing.TB, what string, channel <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Timeout(t))
	defer timer.Stop()
	select {
	case value := <-channel:
		return value
	case <-timer.C:
		t.Fatalf("it did not happen within %s: %s", Timeout(t), what)
		panic("unreachable")
	}
}

// poll reports whether the condition held in time. It is tried once more when the time is over: a machine
// that stood still must not decide.
func poll(timeout time.Duration, condition func() bool) bool {
	began, pause := time.Now(), minPause
	for {
		tried := time.Now()
		late := tried.Sub(began) > timeout
		if condition() {
			return true
		}
		if late {
			return false
		}
		// A try that takes long on a busy machine is no reason for more of them.
		time.Sleep(min(max(pause, time.Since(tried)), maxPause))
		pause = min(2*pause, max(shortPause, time.Since(began)/5))
	}
}
