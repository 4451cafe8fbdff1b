package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// call does one request; n is different in each call of a round.
type call func(ctx context.Context, n int64) error

// side is one of the things that are compared.
type side struct {
	name string
	call call
	// clients is how many requests of this side are in flight; 0 = as in the load.
	clients int
	// before is called before each round, outside of what is measured; nil = nothing is.
	before func(ctx context.Context) error
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
	// pace is how many calls a second begin, at an even pace, if a client is free; 0 = each client begins one when it has ended one.
	pace int
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
			if sides[i].before != nil {
				if err := sides[i].before(ctx); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", what, sides[i].name, err)
				}
			}
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

// measure keeps the clients busy for the length of a round, or lets them call at the pace of the load.
func (b *bench) measure(ctx context.Context, l load, do call) (round, error) {
	if l.pace > 0 {
		return b.measurePaced(ctx, l, do)
	}
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

// measurePaced measures calls at an even pace. The time of a call is from when it was due, so it includes what it waited
// for a client.
func (b *bench) measurePaced(ctx context.Context, l load, do call) (round, error) {
	before, err := b.env.cpu()
	if err != nil {
		return round{}, err
	}
	running, stop := context.WithTimeout(ctx, l.length)
	defer stop()
	var mu sync.Mutex
	var found round
	started := time.Now()
	err = atPace(running, l.clients, l.pace, func(n int, due time.Time) error {
		err := do(ctx, int64(n)+1)
		took := time.Since(due)
		mu.Lock()
		defer mu.Unlock()
		found.times = append(found.times, took)
		return err
	})
	if err := errors.Join(err, ctx.Err()); err != nil {
		return round{}, err
	}
	after, err := b.env.cpu()
	if err != nil {
		return round{}, err
	}
	slices.Sort(found.times)
	found.done, found.took, found.cpu = len(found.times), time.Since(started), after.since(before)
	found.perSecond = float64(found.done) / found.took.Seconds()
	return found, nil
}

// pacedCall is a kind of requests that come at an even pace, whether or not those before them are answered:
// a service that stalls can't make them come later. target is what the ratio of its p99 should be.
type pacedCall struct {
	name   string
	call   call
	target *target
}

// besideCalls are the requests of an account that come beside background work.
func (b *bench) besideCalls(ctx context.Context, e *endpoint, wanted *target) ([]pacedCall, error) {
	stored, err := b.storeFiles(ctx, e, 100_000, 16)
	if err != nil {
		return nil, err
	}
	form := newForm("bench.bin", randomBytes(10_000))
	read := func(path func(n int64) string) call {
		return func(ctx context.Context, n int64) error { _, err := e.get(ctx, path(n)); return err }
	}
	return []pacedCall{
		{"get", read(func(n int64) string { return "/media/get/" + stored.of(n).MediaID }), wanted},
		{"list of 10", read(func(int64) string { return "/media/get?limit=10" }), wanted},
		{"download of 100 KB", stored.through(e), wanted},
		{"upload of 10 KB", func(ctx context.Context, _ int64) error { _, err := e.store(ctx, form); return err }, nil},
	}, nil
}

// phase is a time during which requests come at an even pace: until its activity ends.
type phase struct {
	name string
	act  func(context.Context) error
}

// measuredPhase is what was found in a phase.
type measuredPhase struct {
	name  string
	found []round // of each kind of requests
	took  time.Duration
	cpu   usage
}

// compareLatency measures requests of each kind during activities, and before and after them, when the service
// is idle but for the requests. It prints the ratios of their p99, and the cores that processes were busy with.
func (b *bench) compareLatency(ctx context.Context, calls []pacedCall, processes []string, activities ...phase) ([]measuredPhase, error) {
	all := slices.Concat([]phase{{"warming up", wait(min(b.Idle, 3*time.Second))}, {"before", wait(b.Idle)}}, activities, []phase{{"afterwards", wait(b.Idle)}})
	var measured []measuredPhase
	for _, one := range all {
		b.say("%s: %d requests a second, %s", b.name, b.Pace, one.name)
		found, err := b.measurePhase(ctx, calls, one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		measured = append(measured, found)
	}
	measured = measured[1:]
	idle, busy := []measuredPhase{measured[0], measured[len(measured)-1]}, measured[1:len(measured)-1]
	slow := table{{"p99, ms", "during", "idle", "busy", "ratio", "min", "max", "target", ""}}
	for _, during := range busy {
		for k, kind := range calls {
			usual := round{times: slices.Sorted(slices.Values(slices.Concat(idle[0].found[k].times, idle[1].found[k].times)))}.percentile(0.99)
			p99 := during.found[k].percentile(0.99)
			one := b.add(result{Benchmark: b.name, Case: kind.name + ", " + during.name, Figure: "ratio of p99 to idle", Target: kind.target,
				Inputs: map[string]float64{"idleMilliseconds": usual.Seconds() * 1000, "milliseconds": p99.Seconds() * 1000}}, float64(max(1, p99))/float64(max(1, usual)))
			slow.row(slices.Concat([]string{kind.name, during.name, milliseconds(usual), milliseconds(p99)}, one.cells())...)
		}
	}
	slow.print(b.out)
	b.note("")
	shares := table{slices.Concat([]string{"cores busy", "seconds"}, processes)}
	for _, one := range measured {
		row := []string{one.name, number(one.took.Seconds())}
		for _, process := range processes {
			row = append(row, fmt.Sprintf("%.2f", one.cpu[process]/one.took.Seconds()))
		}
		shares.row(row...)
	}
	shares.print(b.out)
	b.note("%d requests a second come at an even pace, as many of each kind; the idle service is watched for %s before and after", b.Pace, b.Idle)
	return busy, nil
}

// measurePhase sends requests of each kind in turns during an activity. The time of a request is from when it was
// due, so it includes what the request waited to begin.
func (b *bench) measurePhase(ctx context.Context, calls []pacedCall, one phase) (measuredPhase, error) {
	before, err := b.env.cpu()
	if err != nil {
		return measuredPhase{}, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	measured, started := measuredPhase{name: one.name, found: make([]round, len(calls))}, time.Now()
	var mu sync.Mutex
	loaded := make(chan error, 1)
	go func() {
		defer stop() // a request that fails ends the activity
		answers := context.WithoutCancel(ctx)
		loaded <- atPace(running, maxInFlight, b.Pace, func(n int, due time.Time) error {
			kind := n % len(calls)
			err := calls[kind].call(answers, int64(n/len(calls)))
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			measured.found[kind].times = append(measured.found[kind].times, took)
			return err
		})
	}()
	err = one.act(running)
	stop()
	if err := errors.Join(err, <-loaded); err != nil {
		return measuredPhase{}, err
	}
	measured.took = time.Since(started)
	for _, found := range measured.found {
		slices.Sort(found.times)
	}
	after, err := b.env.cpu()
	measured.cpu = after.since(before)
	return measured, err
}

// maxInFlight is how many paced calls may be in flight before the load is taken to be too much.
const maxInFlight = 1000

// atPace begins calls at an even pace until ctx ends or one fails, and waits for all of them. At most so many are in flight.
func atPace(ctx context.Context, most, perSecond int, call func(n int, due time.Time) error) error {
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	group.SetLimit(most)
	start := time.Now()
	for n := 0; ; n++ {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-failed.Done():
			return group.Wait()
		case <-time.After(time.Until(due)):
		}
		group.Go(func() error { return call(n, due) })
	}
}

// wait returns an activity that does nothing for a while.
func wait(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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
