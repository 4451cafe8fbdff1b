// Package faults injects faults: a schedule that a seed fixes, and proxies that cut, stall and mute
// connections, or stop at a request. The scenarios of chaos use it.
package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is a kind of fault. Run draws all it needs from the schedule's random source before it
// waits for anything, so that the seed fixes the schedule.
type Fault struct {
	// Name is what the summary calls it.
	Name string
	// Weight is how often it is injected, compared with the others.
	Weight int
	// Kills is how many processes it kills.
	Kills int
	// Run injects it. It reports false when there was nothing to inject it into.
	Run func(ctx context.Context, draw *rand.Rand) (done bool, err error)
}

// Outage returns a fault's Run that sets proxies to a mode for a random time.
func Outage(to Mode, longest time.Duration, proxies ...*Proxy) func(context.Context, *rand.Rand) (bool, error) {
	return func(ctx context.Context, draw *rand.Rand) (bool, error) {
		length := Duration(draw, 50*time.Millisecond, longest)
		for _, p := range proxies {
			p.Set(to)
		}
		Sleep(ctx, length)
		for _, p := range proxies {
			p.Set(Open)
		}
		return true, nil
	}
}

// Schedule injects one fault after the other.
type Schedule struct {
	faults []Fault
	draw   *rand.Rand
	pause  time.Duration
	record func(name string)

	mu     sync.Mutex
	counts map[string]int
	killed int
}

// New returns a schedule. It waits up to pause between two faults, and records each before it
// injects it.
func New(seed uint64, faults []Fault, pause time.Duration, record func(name string)) *Schedule {
	return &Schedule{faults: faults, draw: rand.New(rand.NewPCG(seed, 1)), pause: pause, record: record, counts: map[string]int{}}
}

// Run injects each fault once, in an order that the seed fixes, and then random ones until enough
// processes were killed.
func (s *Schedule) Run(ctx context.Context, kills int) error {
	once := slices.Clone(s.faults)
	s.draw.Shuffle(len(once), func(i, j int) { once[i], once[j] = once[j], once[i] })
	for i := 0; (i < len(once) || s.Kills() < kills) && ctx.Err() == nil; i++ {
		next := s.Pick()
		if i < len(once) {
			next = once[i]
		}
		Sleep(ctx, Duration(s.draw, 50*time.Millisecond, s.pause))
		if ctx.Err() != nil {
			return nil
		}
		s.record(next.Name)
		done, err := next.Run(ctx, s.draw)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", next.Name, err)
		}
		if done {
			s.mu.Lock()
			s.counts[next.Name]++
			s.killed += next.Kills
			s.mu.Unlock()
		}
	}
	return nil
}

// Pick draws a fault.
func (s *Schedule) Pick() Fault {
	sum := 0
	for _, f := range s.faults {
		sum += f.Weight
	}
	n := s.draw.IntN(sum)
	for _, f := range s.faults {
		if n -= f.Weight; n < 0 {
			return f
		}
	}
	return s.faults[0]
}

// Kills returns how many processes were killed.
func (s *Schedule) Kills() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed
}

// String says how often each fault was injected.
func (s *Schedule) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := []string{fmt.Sprintf("%d kills", s.killed)}
	for _, f := range s.faults {
		parts = append(parts, fmt.Sprintf("%s %d", f.Name, s.counts[f.Name]))
	}
	return strings.Join(parts, ", ")
}

// Duration draws a duration.
func Duration(draw *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(draw.Int64N(int64(most-least)))
}

// Sleep waits, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
