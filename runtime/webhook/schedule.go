package webhook

import (
	"math/rand/v2"
	"time"
)

// schedule is when a delivery is tried again after a failed attempt, from the first one on: that of Standard Webhooks.
var schedule = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}

// maxAttempts is how often a delivery is tried.
var maxAttempts = len(schedule) + 1

const (
	// probing is after how many failures a receiver gets one delivery at a time, which a process sends, and pauses between them.
	probing = 3
	// minPause doubles with each failure, up to maxPause.
	minPause = time.Second
	maxPause = time.Minute
	// failingFor is after how long a failing receiver that accepts again gets all that is pending at once. One that rejects some of the events
	// never fails for so long.
	failingFor = 5 * time.Minute
)

// retryDelay returns when a delivery is tried again after a failed attempt, from 1. A random share of up to a tenth is added.
func retryDelay(attempt int) time.Duration {
	pause := schedule[min(max(attempt, 1), len(schedule))-1]
	return pause + rand.N(pause/10)
}

// pause returns for how long a receiver gets nothing after so many failures.
func pause(failures int) time.Duration {
	if failures < probing {
		return 0
	}
	return min(minPause<<min(failures-probing, 10), maxPause)
}
