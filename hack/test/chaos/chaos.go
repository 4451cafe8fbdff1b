package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mediastack.dev/hack/servers"
)

// fault is a kind of fault. It draws all it needs from the scheduler's random source before it
// waits for anything, so that the seed fixes the schedule.
type fault struct {
	name   string
	weight int
	// kills is how many runtimes and purges it kills.
	kills int
	run   func(ctx context.Context, draw *rand.Rand) (done bool, err error)
}

// chaos is the scheduler: it injects one fault after the other.
type chaos struct {
	env    *environment
	model  *model
	draw   *rand.Rand
	faults []fault

	mu     sync.Mutex
	counts map[string]int
	killed int // runtimes and purges
}

func newChaos(e *environment, m *model, seed uint64) *chaos {
	c := &chaos{env: e, model: m, draw: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{}}
	outage := func(p *proxy, to mode, longest time.Duration) func(context.Context, *rand.Rand) (bool, error) {
		return func(ctx context.Context, draw *rand.Rand) (bool, error) {
			length := randomDuration(draw, 50*time.Millisecond, longest)
			p.set(to)
			sleep(ctx, length)
			p.set(open)
			return true, nil
		}
	}
	c.faults = []fault{
		{"kill runtime A", 26, 1, func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, c.killRuntimes(ctx, e.replicas[0]) }},
		{"kill runtime B", 26, 1, func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, c.killRuntimes(ctx, e.replicas[1]) }},
		{"kill both runtimes", 8, 2, func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, c.killRuntimes(ctx, e.replicas...) }},
		{"kill the purge", 26, 1, func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return c.killPurge(ctx, randomDuration(draw, 10*time.Millisecond, 150*time.Millisecond))
		}},
		{"kill an image worker", 6, 0, func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return c.killWorker(ctx, draw.IntN(1<<20)), nil
		}},
		{"kill PostgreSQL", 3, 0, func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, e.killPostgres(ctx, randomDuration(draw, 0, time.Second))
		}},
		{"kill S3", 3, 0, func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, e.killS3(ctx, randomDuration(draw, 0, time.Second))
		}},
		{"stop S3", 2, 0, func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, c.stopS3(ctx, randomDuration(draw, 100*time.Millisecond, 1500*time.Millisecond))
		}},
		{"disconnect PostgreSQL", 3, 0, outage(e.dbProxy, cut, 1200*time.Millisecond)},
		{"stall PostgreSQL", 2, 0, outage(e.dbProxy, stall, 1500*time.Millisecond)},
		{"mute PostgreSQL", 5, 0, outage(e.dbProxy, mute, 600*time.Millisecond)},
		{"disconnect S3", 3, 0, outage(e.s3Proxy, cut, 1200*time.Millisecond)},
		{"stall S3", 2, 0, outage(e.s3Proxy, stall, 1500*time.Millisecond)},
		{"mute S3", 5, 0, outage(e.s3Proxy, mute, 600*time.Millisecond)},
	}
	return c
}

func randomDuration(draw *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(draw.Int64N(int64(most-least)))
}

// run injects each fault once, in an order that the seed fixes, and then random ones until enough
// runtimes and purges were killed.
func (c *chaos) run(ctx context.Context, kills int) error {
	once := slices.Clone(c.faults)
	c.draw.Shuffle(len(once), func(i, j int) { once[i], once[j] = once[j], once[i] })
	for i := 0; (i < len(once) || c.kills() < kills) && ctx.Err() == nil; i++ {
		next := c.pick()
		if i < len(once) {
			next = once[i]
		}
		sleep(ctx, randomDuration(c.draw, 50*time.Millisecond, 700*time.Millisecond))
		if ctx.Err() != nil {
			return nil
		}
		c.model.recordFault(next.name)
		done, err := next.run(ctx, c.draw)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		if done {
			c.mu.Lock()
			c.counts[next.name]++
			c.killed += next.kills
			c.mu.Unlock()
		}
	}
	return nil
}

func (c *chaos) pick() fault {
	sum := 0
	for _, e := range c.faults {
		sum += e.weight
	}
	n := c.draw.IntN(sum)
	for _, e := range c.faults {
		if n -= e.weight; n < 0 {
			return e
		}
	}
	return c.faults[0]
}

// kills returns how many runtimes and purges were killed.
func (c *chaos) kills() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

func (c *chaos) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, e := range c.faults {
		parts = append(parts, fmt.Sprintf("%s %d", e.name, c.counts[e.name]))
	}
	return fmt.Sprintf("%d kills of runtimes and purges; %s", c.killed, strings.Join(parts, ", "))
}

func (c *chaos) killRuntimes(ctx context.Context, replicas ...*replica) error {
	for _, replica := range replicas {
		died, err := c.env.kill(ctx, replica)
		if died != nil {
			c.model.wrong(nil, "%v", died)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// killPurge starts a purge and kills it in the middle; one that ends sooner than that is
// followed by another.
func (c *chaos) killPurge(ctx context.Context, after time.Duration) (bool, error) {
	for ctx.Err() == nil {
		p, err := c.env.startPurge(ctx)
		if err != nil {
			return false, err
		}
		timer := time.NewTimer(after)
		select {
		case <-p.Done():
			timer.Stop()
			after = after * 3 / 4
			continue
		case <-timer.C:
			p.Kill()
			return true, nil
		}
	}
	return false, nil
}

// killWorker kills a process that a runtime has started; false when there is none. A
// runtime that is just starting is spared: it ends when its first worker fails.
func (c *chaos) killWorker(ctx context.Context, n int) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var workers []int
	for _, replica := range c.env.replicas {
		if replica.ready(ctx) == nil {
			workers = append(workers, servers.Children(replica.pid())...)
		}
	}
	if len(workers) == 0 {
		return false
	}
	return syscall.Kill(workers[n%len(workers)], syscall.SIGKILL) == nil
}

func (c *chaos) stopS3(ctx context.Context, length time.Duration) error {
	if err := c.env.s3.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, length)
	return c.env.s3.Signal(syscall.SIGCONT)
}

// startBackground starts what runs beside the clients all the time: purges, consistency checks, and samples of the
// storage quota.
func (e *environment) startBackground(ctx context.Context, m *model, all *sync.WaitGroup) {
	all.Go(func() {
		for ctx.Err() == nil {
			if p, err := e.startPurge(ctx); err == nil {
				select {
				case <-p.Done():
				case <-ctx.Done():
					p.Stop()
				}
			}
			m.count("purge passes")
			sleep(ctx, 300*time.Millisecond)
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			sleep(ctx, 5*time.Second)
			if ctx.Err() != nil {
				return
			}
			// A check may fail in an outage, but must find nothing that is not so.
			code, out, _ := e.call(context.WithoutCancel(ctx), nil, "check", "--all", "--grace=1h")
			switch code {
			case 0:
				m.count("clean checks under load")
			case 3:
				m.wrong(nil, "a check under load found:\n%s", out)
			default:
				m.count("checks that an outage ended")
			}
		}
	})
	all.Go(func() { e.sampleQuota(ctx, m) })
}
