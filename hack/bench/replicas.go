package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
)

// replicaClients is how many requests are in flight, through one replica or through two.
const replicaClients = 64

// replicas measures what a second replica on cores of its own adds. Every runtime gets so small a
// part of a core that it is the bottleneck, as it is where each replica has a node to itself.
func replicas(ctx context.Context, b *bench) (err error) {
	tenants := make([]tenant, batchAccounts)
	for i := range tenants {
		if tenants[i], err = b.env.tenant(ctx, "replica-"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	var runtimes [2]*endpoint
	for i := range runtimes {
		name := fmt.Sprintf("runtime %d", i+1)
		bound, err := newQuota(strconv.Itoa(i+1), b.Quota)
		if errors.Is(err, errNoQuota) {
			b.leaveOut("replicas", err)
			return nil
		}
		if err != nil {
			return err
		}
		defer func() {
			if failed := bound.close(); failed != nil {
				b.note("%s: a control group stays: %v", b.name, failed)
			}
		}()
		if runtimes[i], err = b.env.serve(ctx, name, tenants[0]); err != nil {
			return err
		}
		if err := bound.add(runtimes[i].PID()); err != nil {
			return err
		}
	}
	f := newForm("bench.bin", randomBytes(batchBytes))
	draft, err := runtimes[0].store(ctx, f)
	if err != nil {
		return err
	}
	times := table{{"request", "replicas", "per second", "p50, ms", "p99, ms", "runtime, CPU ms", "PostgreSQL", "S3", "cores of the runtimes"}}
	for _, kind := range []struct {
		name     string
		postgres bool // its share is compared, too
		call     func(replicas int64) call
		after    func(context.Context) error
	}{
		{"upload of 100 KB", true, func(replicas int64) call {
			var rejected atomic.Int64
			return func(ctx context.Context, n int64) error {
				return uploadUntilAccepted(ctx, runtimes[n%replicas], tenants[n/replicas%batchAccounts].APIKey, f, &rejected)
			}
		}, func(context.Context) error {
			for _, t := range tenants {
				if err := t.removeObjects("media"); err != nil {
					return err
				}
			}
			return nil
		}},
		{"get", false, func(replicas int64) call {
			return func(ctx context.Context, n int64) error {
				_, err := runtimes[n%replicas].get(ctx, "/media/get/"+draft.MediaID)
				return err
			}
		}, nil},
	} {
		sides := []side{{name: "1 replica", call: kind.call(1), after: kind.after}, {name: "2 replicas", call: kind.call(2), after: kind.after}}
		rounds, err := b.measureRounds(ctx, kind.name, load{clients: replicaClients, rounds: b.Rounds, length: b.Length}, sides...)
		if err != nil {
			return err
		}
		one, two := rates(rounds[0]), rates(rounds[1])
		b.add(result{Benchmark: b.name, Case: kind.name, Figure: "ratio of requests/s, 2 replicas to 1", Target: minimum(1.6),
			Inputs: map[string]float64{"onePerSecond": median(one), "twoPerSecond": median(two)}}, ratios(two, one)...)
		if kind.postgres {
			share := func(rounds []round) float64 {
				return median(figures(rounds, func(r round) float64 { return r.perCall(postgres) }))
			}
			b.add(result{Benchmark: b.name, Case: kind.name, Figure: "ratio of PostgreSQL's CPU time, 2 replicas to 1", Target: maximum(1.5),
				Inputs: map[string]float64{"oneMilliseconds": share(rounds[0]), "twoMilliseconds": share(rounds[1])}}, max(0.01, share(rounds[1]))/max(0.01, share(rounds[0])))
		}
		for i := range rounds {
			times.row(kind.name, strconv.Itoa(i+1), number(median(rates(rounds[i]))), percentiles(rounds[i], 0.5), percentiles(rounds[i], 0.99),
				perCalls(rounds[i], "runtime 1", "runtime 2"), perCalls(rounds[i], postgres), perCalls(rounds[i], store),
				fmt.Sprintf("%.2f", median(figures(rounds[i], func(r round) float64 { return (r.cpu["runtime 1"] + r.cpu["runtime 2"]) / r.took.Seconds() }))))
		}
	}
	times.print(b.out)
	b.note("%d clients; each runtime has %g %% of a core, by a quota of the kernel, so that everything else has cores to spare", replicaClients, b.Quota)
	return nil
}
