package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// call does one request; n is different in each call of a round.
type call func(ctx context.Context, n int64) error

// side is one of the things that are compared.
type side struct {
	name string
	call call
	// clients is how many requests of this side are in flight; 0 = as in the load.
	clients int
	// after is called after each round, outside of what is measured: to look at what
	// was done, and to remove it.
	after func(ctx context.Context) error
}

// round is what one side did in one round.
type round struct {
	done      int
	took      time.Duration
	perSecond float64
	times     []time.Duration // sorted
	cpu       usage           // of the round
}

// perCall returns the CPU milliseconds of a process for each call.
func (r round) perCall(name string) float64 { return 1000 * r.cpu[name] / float64(max(1, r.done)) }

// percentile returns the time that a part of the calls did not exceed.
func (r round) percentile(part float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[min(len(r.times)-1, int(part*float64(len(r.times))))]
}

// load is how hard the sides are driven.
type load struct {
	clients, rounds int
	length          time.Duration // of a round; a round goes on until calls calls are done when it is 0
	calls           int64
}

// of returns the load of a side.
func (l load) of(s side) load {
	if s.clients > 0 {
		l.clients = s.clients
	}
	return l
}

// measureRounds measures the sides alternately, in reverse order every other time, after a warm-up
// round of each. It returns the rounds of each side.
func (b *bench) measureRounds(ctx context.Context, what string, l load, sides ...side) ([][]round, error) {
	rounds := make([][]round, len(sides))
	order := make([]int, len(sides))
	for i := range order {
		order[i] = i
	}
	for n := range l.rounds + 1 {
		for _, i := range order {
			one, err := b.measure(ctx, l.of(sides[i]), sides[i].call)
			if err == nil && sides[i].after != nil {
				err = sides[i].after(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", what, sides[i].name, err)
			}
			if n > 0 {
				rounds[i] = append(rounds[i], one)
			}
			b.say("%s: %s, %s: %s/s", b.name, what, roundName(sides[i].name, n, l.rounds), number(one.perSecond))
		}
		slices.Reverse(order)
	}
	return rounds, nil
}

func roundName(name string, n, of int) string {
	if n == 0 {
		return name + ", warming up"
	}
	return fmt.Sprintf("%s, round %d of %d", name, n, of)
}

// measure keeps the clients busy for the length of a round.
func (b *bench) measure(ctx context.Context, l load, do call) (round, error) {
	before, err := b.env.cpu()
	if err != nil {
		return round{}, err
	}
	var started atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	times := make([][]time.Duration, l.clients)
	start := time.Now()
	for i := range times {
		all.Go(func() {
			for failed.Load() == nil && ctx.Err() == nil {
				n, begun := started.Add(1), time.Now()
				// Each client does one call at least, however late it comes to its turn.
				if l.length > 0 && n > int64(l.clients) && begun.Sub(start) >= l.length || l.length == 0 && n > l.calls {
					return
				}
				if err := do(ctx, n); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				times[i] = append(times[i], time.Since(begun))
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	if err := failed.Load(); err != nil {
		return round{}, *err
	}
	if err := ctx.Err(); err != nil {
		return round{}, err
	}
	after, err := b.env.cpu()
	if err != nil {
		return round{}, err
	}
	found := round{times: slices.Sorted(slices.Values(slices.Concat(times...))), took: took, cpu: after.since(before)}
	found.done = len(found.times)
	found.perSecond = float64(found.done) / took.Seconds()
	return found, nil
}

// figures returns one figure of each round.
func figures(rounds []round, of func(round) float64) []float64 {
	var values []float64
	for _, one := range rounds {
		values = append(values, of(one))
	}
	return values
}

func rates(rounds []round) []float64 {
	return figures(rounds, func(r round) float64 { return r.perSecond })
}

// ratios returns above/under, pair by pair.
func ratios(above, under []float64) []float64 {
	values := make([]float64, len(above))
	for i := range above {
		values[i] = above[i] / under[i]
	}
	return values
}
