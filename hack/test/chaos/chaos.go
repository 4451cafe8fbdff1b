package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/chaos/faults"
)

// chaos injects faults into the service.
type chaos struct {
	*faults.Schedule
	env   *environment
	model *model
}

func newChaos(e *environment, m *model, seed uint64, pause time.Duration) *chaos {
	c := &chaos{env: e, model: m}
	c.Schedule = faults.New(seed, []faults.Fault{
		{Name: "kill runtime A", Weight: 26, Kills: 1, Run: func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, c.killRuntimes(ctx, e.replicas[0]) }},
		{Name: "kill runtime B", Weight: 26, Kills: 1, Run: func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, c.killRuntimes(ctx, e.replicas[1]) }},
		{Name: "kill both runtimes", Weight: 8, Kills: 2, Run: func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, c.killRuntimes(ctx, e.replicas...) }},
		{Name: "kill the purge", Weight: 26, Kills: 1, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return c.killPurge(ctx, faults.Duration(draw, 10*time.Millisecond, 150*time.Millisecond))
		}},
		{Name: "kill an image worker", Weight: 6, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return c.killWorker(ctx, draw.IntN(1<<20)), nil
		}},
		{Name: "kill PostgreSQL", Weight: 3, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, e.killPostgres(ctx, faults.Duration(draw, 0, time.Second))
		}},
		{Name: "kill S3", Weight: 3, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, e.killS3(ctx, faults.Duration(draw, 0, time.Second))
		}},
		{Name: "stop S3", Weight: 2, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, c.stopS3(ctx, faults.Duration(draw, 100*time.Millisecond, 1500*time.Millisecond))
		}},
		{Name: "disconnect PostgreSQL", Weight: 3, Run: faults.Outage(faults.Cut, 1200*time.Millisecond, e.dbProxy)},
		{Name: "stall PostgreSQL", Weight: 2, Run: faults.Outage(faults.Stall, 1500*time.Millisecond, e.dbProxy)},
		{Name: "mute PostgreSQL", Weight: 5, Run: faults.Outage(faults.Mute, 600*time.Millisecond, e.dbProxy)},
		{Name: "disconnect S3", Weight: 3, Run: faults.Outage(faults.Cut, 1200*time.Millisecond, e.s3Proxy)},
		{Name: "stall S3", Weight: 2, Run: faults.Outage(faults.Stall, 1500*time.Millisecond, e.s3Proxy)},
		{Name: "mute S3", Weight: 5, Run: faults.Outage(faults.Mute, 600*time.Millisecond, e.s3Proxy)},
	}, pause, m.recordFault)
	return c
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
	faults.Sleep(ctx, length)
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
			faults.Sleep(ctx, 300*time.Millisecond)
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			faults.Sleep(ctx, 5*time.Second)
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
	for _, f := range e.followers {
		all.Go(func() { f.follow(ctx) })
	}
	if e.receiver != nil {
		all.Go(func() { e.receiver.disturb(ctx) })
	}
}
