package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// backgroundLoad is a load of requests that come at an even pace, whether or not the ones
// before them are answered: a service that stalls can't make them come later.
type backgroundLoad struct {
	e    *endpoint
	form form
	ids  []string // of items to get
	pace int
}

func (b *bench) newBackgroundLoad(ctx context.Context, e *endpoint) (*backgroundLoad, error) {
	s := &backgroundLoad{e: e, form: newForm("bench.bin", randomBytes(10_000)), pace: b.Pace}
	for range 100 {
		draft, err := e.store(ctx, s.form)
		if err != nil {
			return nil, err
		}
		s.ids = append(s.ids, draft.MediaID)
	}
	return s, nil
}

// latencies are the times of background requests during an activity.
type latencies struct {
	gets, uploads round
	took          time.Duration
	cpu           usage
}

// measureLatency measures the background requests during an activity.
func (b *bench) measureLatency(ctx context.Context, s *backgroundLoad, what string, activity func(context.Context) error) (latencies, error) {
	b.say("%s: %d requests a second, %s", b.name, s.pace, what)
	before, err := b.env.cpu()
	if err != nil {
		return latencies{}, err
	}
	started := time.Now()
	running, stop := context.WithCancel(ctx)
	var found latencies
	loaded := make(chan error, 1)
	go func() { loaded <- s.run(running, &found) }()
	err = activity(ctx)
	stop()
	err = errors.Join(err, <-loaded)
	found.took = time.Since(started)
	if err != nil {
		return latencies{}, err
	}
	after, err := b.env.cpu()
	found.cpu = after.since(before)
	return found, err
}

// run sends requests until ctx ends, and waits for the answers to all of them.
func (s *backgroundLoad) run(ctx context.Context, found *latencies) error {
	answers := context.WithoutCancel(ctx)
	var mu sync.Mutex
	return atPace(ctx, s.pace, func(n int, due time.Time) error {
		of := &found.gets
		var err error
		if n%4 == 0 {
			of = &found.uploads
			_, err = s.e.store(answers, s.form)
		} else {
			_, err = s.e.get(answers, "/media/get/"+s.ids[n%len(s.ids)])
		}
		took := time.Since(due)
		mu.Lock()
		defer mu.Unlock()
		of.times = append(of.times, took)
		return err
	})
}

// atPace begins calls at an even pace until ctx ends or one fails, and waits for all of them. A call is
// given when it was due, so that its time includes what it waited to begin.
func atPace(ctx context.Context, perSecond int, call func(n int, due time.Time) error) error {
	const most = 1000 // in flight, before the load is taken to be too much
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

// compareLatency compares the latency of background requests during an activity with that before and
// after it, when the service is idle but for them. by is the name under which the CPU time of the
// activity is counted; empty = the service's own.
func (b *bench) compareLatency(ctx context.Context, e *endpoint, what, by string, warmUp, activity func(context.Context) error) error {
	background, err := b.newBackgroundLoad(ctx, e)
	if err != nil {
		return err
	}
	var measured [4]latencies
	for i, phase := range []struct {
		name string
		act  func(context.Context) error
	}{{"warming up", warmUp}, {"idle", wait(b.Idle)}, {what, activity}, {"idle again", wait(b.Idle)}} {
		if measured[i], err = b.measureLatency(ctx, background, phase.name, phase.act); err != nil {
			return err
		}
	}
	b.printLatency(what, by, measured[1], measured[2], measured[3])
	return nil
}

// printLatency adds the results, and prints their tables.
func (b *bench) printLatency(what, by string, before, during, after latencies) {
	times := table{{"request", "idle p50, ms", what + " p50", "idle p99", "idle p99 again", what + " p99", "ratio", "min", "max", "target", ""}}
	for _, kind := range []struct {
		what string
		of   func(latencies) round
	}{{"get", func(f latencies) round { return f.gets }}, {"upload, 10 KB", func(f latencies) round { return f.uploads }}} {
		first, middle, last := sorted(kind.of(before)), sorted(kind.of(during)), sorted(kind.of(after))
		idle := sorted(round{times: slices.Concat(first.times, last.times)})
		ratio := func(idle round) float64 {
			return float64(middle.percentile(0.99)) / float64(max(1, idle.percentile(0.99)))
		}
		found := b.add(result{Benchmark: b.name, Case: "p99 of " + kind.what, Figure: "ratio to idle", Target: maximum(1.5),
			Inputs: map[string]float64{"idleMilliseconds": idle.percentile(0.99).Seconds() * 1000, what + "Milliseconds": middle.percentile(0.99).Seconds() * 1000}},
			ratio(idle), ratio(first), ratio(last))
		times.row(append([]string{kind.what, milliseconds(idle.percentile(0.5)), milliseconds(middle.percentile(0.5)), milliseconds(first.percentile(0.99)),
			milliseconds(last.percentile(0.99)), milliseconds(middle.percentile(0.99))}, found.cells()...)...)
	}
	times.print(b.out)
	b.note("")
	names := b.env.columns(client, service, postgres, store)
	shares := table{append([]string{"cores busy"}, names...)}
	if by != "" {
		names = append(names, by)
		shares[0] = append(shares[0], what)
	}
	for _, one := range []struct {
		what      string
		latencies latencies
	}{{"idle", before}, {what, during}, {"idle again", after}} {
		cells := []string{one.what}
		for _, name := range names {
			cells = append(cells, fmt.Sprintf("%.2f", one.latencies.cpu[name]/one.latencies.took.Seconds()))
		}
		shares.row(cells...)
	}
	shares.print(b.out)
	b.note("%d requests a second come at an even pace, %d of them in all during the %s; the idle service is watched for %s before and after", b.Pace,
		len(during.gets.times)+len(during.uploads.times), what, b.Idle)
}

func sorted(r round) round {
	slices.Sort(r.times)
	return r
}
