package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// operator measures the operator with many accounts. The phases are in the order in which each one finds what it needs.
func operator(ctx context.Context, b *bench) error {
	c, err := b.startCluster(ctx)
	if err != nil {
		return err
	}
	b.note("%d accounts with a MediaSettings and %d apps each; the operator has the defaults of the manifests", b.Accounts, b.Apps+1)
	for _, phase := range []func(context.Context) error{c.measureCreation, c.measureIdle, c.measureRestart} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureCreation creates the accounts in three steps, and measures the memory after each.
func (c *cluster) measureCreation(ctx context.Context) error {
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	if _, _, err := c.create(ctx, fleetNamespace, 0, 1); err != nil { // which warms up
		return err
	}
	processes := []string{operatorName, apiServer, etcd, postgres, store}
	steps := table{slices.Concat([]string{"creation, for each account", "ms until Ready", "API writes", "SQL statements", "S3 requests"}, processes, []string{"heap after GC, MiB", "resident"})}
	var costs [4][]float64 // API writes, statements, S3 requests, processor ms of the operator
	var memory []footprint
	from := 1
	for _, until := range []int{c.b.Accounts / 10, c.b.Accounts / 2, c.b.Accounts} {
		if until <= from {
			continue
		}
		took, used, err := c.create(ctx, fleetNamespace, from, until)
		if err != nil {
			return err
		}
		size, err := c.footprint(ctx, until)
		if err != nil {
			return err
		}
		each := 1 / float64(until-from)
		row := []string{fmt.Sprintf("to %d", until), number(took.Seconds() * 1000 * each)}
		for i, count := range []float64{used.writes - clientWrites*float64(until-from), used.statements, used.s3, used.cpu[operatorName] * 1000} {
			costs[i] = append(costs[i], max(count*each, almostZero))
		}
		for _, values := range costs[:3] {
			row = append(row, number(values[len(values)-1]))
		}
		for _, process := range processes {
			row = append(row, number(used.cpu[process]*1000*each)+" ms")
		}
		steps.row(append(row, number(size.heap), number(size.resident))...)
		memory, from = append(memory, size), until
	}
	steps.print(c.b.out)
	c.b.note("ms are from the first creation until all are Ready, and processor time; the client that creates and watches the objects is in no column")
	shown := figureTable("creation", "for each account")
	shown.add(c.b, fmt.Sprintf("API writes, of which %g are needed", c.b.neededWrites()), maximum(1.25*c.b.neededWrites()), costs[0]...)
	for i, what := range []string{"SQL statements", "S3 requests", "processor ms of the operator"} {
		shown.add(c.b, what, nil, costs[i+1]...)
	}
	shown.print(c.b.out)
	c.reportMemory(memory)
	return nil
}

// clientWrites is how many writes for an account are those of the client: both objects.
const clientWrites = 2

// neededWrites is how many writes to the API server an account with its MediaSettings costs any operator: a finalizer
// and a status for both, an event, and a Secret for each app.
func (o options) neededWrites() float64 { return float64(2*2 + 1 + 1 + o.Apps) }

// reportMemory reports the memory per account as the slope between the first size and the last.
func (c *cluster) reportMemory(sizes []footprint) {
	first, last := sizes[0], sizes[len(sizes)-1]
	if first.accounts == last.accounts {
		return
	}
	slope := func(from, to float64) float64 {
		return max(0.001, (to-from)*1024/float64(last.accounts-first.accounts))
	}
	shown := figureTable("memory", "KiB per account")
	shown.add(c.b, "heap after GC", maximum(30), slope(first.heap, last.heap))
	shown.add(c.b, "resident", maximum(30), slope(first.resident, last.resident))
	shown.print(c.b.out)
}

// quietFor is how long the operator must write nothing and have nothing to do to count as settled.
const quietFor = 3 * time.Second

// almostZero stands for a count of nothing: a figure of a benchmark is positive.
const almostZero = 1e-6

// measureIdle counts what the operator does while nobody does anything.
func (c *cluster) measureIdle(ctx context.Context) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.b.say("%s: idle for %s", c.b.name, c.b.Idle)
	used, took, err := c.count(ctx, wait(c.b.Idle))
	if err != nil {
		return err
	}
	shown := figureTable("idle", "per second")
	for _, one := range []struct {
		what        string
		count, most float64
	}{{"API writes", used.writes, 0.001}, {"SQL statements", used.statements, 5}, {"S3 requests", used.s3, 20}, {"share of a core", used.cpu[operatorName], 0.05}} {
		shown.add(c.b, one.what, maximum(one.most), max(one.count/took.Seconds(), almostZero))
	}
	shown.print(c.b.out)
	c.b.note("%s idle with %d accounts. API writes are those of apiserver_request_total without the leader election; statements are those of the operator's role in pg_stat_statements, BEGIN and COMMIT included; "+
		"S3 requests are those that the operator counts.", took.Round(time.Second), c.b.Accounts)
	return nil
}

// measureRestart starts the operator again when nothing has changed. All that it counts is from the restart.
func (c *cluster) measureRestart(ctx context.Context) error {
	before, err := c.counters(ctx)
	if err != nil {
		return err
	}
	c.operator.Stop()
	started := time.Now()
	if err := errors.Join(c.startOperator(ctx), c.settle(ctx)); err != nil {
		return err
	}
	took := time.Since(started) - quietFor
	after, err := c.counters(ctx)
	if err != nil {
		return err
	}
	shown := figureTable("restart", "in all")
	shown.add(c.b, "API writes", maximum(1), max(after.writes-before.writes, almostZero))
	shown.add(c.b, "seconds until it has settled", nil, max(took, time.Millisecond).Seconds())
	shown.add(c.b, "seconds of processor time", nil, max(after.cpu[operatorName], almostZero))
	shown.print(c.b.out)
	return nil
}
