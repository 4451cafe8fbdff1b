package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// scale of an operator benchmark, which is derived from --accounts.
type fleet struct {
	accounts  int
	apps      int     // of each account, in addition to the Default App
	rotations int     // of each key, in the past
	bare      int     // accounts of a round of the bare loop
	heap      float64 // the most KiB of the operator's memory for each account
	during    int     // accounts that are created while changes are timed
}

// operatorAccounts measures the operator with many accounts of one app.
func operatorAccounts(ctx context.Context, b *bench) error {
	part := max(b.Accounts/10, min(b.Accounts, 50))
	return b.measureOperator(ctx, fleet{accounts: b.Accounts, heap: 30, bare: part, during: cmp.Or(b.Creations, part)})
}

// appsOfOne is how many apps an account has in operator-apps, besides the Default App.
const appsOfOne = 50

// operatorApps measures the operator with few accounts of many apps, whose keys were rotated often.
func operatorApps(ctx context.Context, b *bench) error {
	accounts := max(b.Accounts/20, 2)
	return b.measureOperator(ctx, fleet{accounts: accounts, apps: min(appsOfOne, b.Accounts), rotations: 24, heap: 60, bare: max(accounts/10, 2), during: cmp.Or(b.Creations, max(accounts/10, 2))})
}

// measureOperator runs the phases in the order in which each one finds what it needs.
func (b *bench) measureOperator(ctx context.Context, f fleet) error {
	c, err := b.startCluster(ctx)
	if err != nil {
		return err
	}
	b.note("%d accounts with a MediaSettings each, %d apps and %d rotations of each key; the operator has the defaults of the manifests", f.accounts, f.apps+1, f.rotations)
	for _, phase := range []func(context.Context, fleet) error{c.measureCreation, c.addRotations, c.measureIdle, c.measureRestart, c.measureChanges} {
		if err := phase(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// measureCreation creates the accounts in three steps and measures the memory after each, between two
// rounds of the bare loop.
func (c *cluster) measureCreation(ctx context.Context, f fleet) error {
	template, err := c.makeTemplate(ctx, f)
	if err != nil {
		return err
	}
	var own, loop []created
	one, err := c.measureBare(ctx, template, f, 0)
	if err != nil {
		return err
	}
	loop = append(loop, one)
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	var memory []footprint
	for _, until := range []int{f.accounts / 10, f.accounts / 2, f.accounts} {
		from := 0
		if len(own) > 0 {
			from = own[len(own)-1].until
		}
		if until == from {
			continue
		}
		before, err := c.counters(ctx)
		if err != nil {
			return err
		}
		one, err := c.create(ctx, fleetNamespace, from, until, f.apps)
		if err != nil {
			return err
		}
		if err := c.noteCosts(ctx, before, until-from); err != nil {
			return err
		}
		own = append(own, one)
		size, err := c.footprint(ctx, until)
		if err != nil {
			return err
		}
		memory = append(memory, size)
	}
	c.operator.Stop()
	if one, err = c.measureBare(ctx, template, f, 1); err != nil {
		return err
	}
	loop = append(loop, one)
	c.reportCreation(own, loop)
	c.reportMemory(memory, f.heap)
	if err := c.measureBackground(ctx); err != nil {
		return err
	}
	return c.startOperator(ctx)
}

// measureBackground measures how many transaction ids the servers use while no operator runs: those of the
// runtime.
func (c *cluster) measureBackground(ctx context.Context) error {
	if _, err := c.sql.Exec(ctx, "VACUUM ANALYZE"); err != nil { // else autovacuum works in one of two measurements
		return err
	}
	before, err := c.counters(ctx)
	if err != nil {
		return err
	}
	if err := wait(min(c.b.Idle, backgroundFor))(ctx); err != nil {
		return err
	}
	after, err := c.counters(ctx)
	if err != nil {
		return err
	}
	used := after.since(before)
	c.background = used.transactions / used.took.Seconds()
	return nil
}

// reportCreation compares the accounts that the operator provided with those of the bare loop.
func (c *cluster) reportCreation(own, loop []created) {
	all := created{from: own[0].from, until: own[len(own)-1].until, cpu: usage{}}
	for _, one := range own {
		all.took += one.took
		for name, seconds := range one.cpu {
			all.cpu[name] += seconds
		}
	}
	servers := []string{apiServer, etcd, postgres, store}
	ratio := func(of func(created) float64) []float64 {
		return []float64{of(all) / of(loop[0]), of(all) / of(loop[1])}
	}
	elapsed := func(one created) float64 { return one.took.Seconds() * 1000 / float64(one.accounts()) }
	busy := func(one created) float64 { return one.cpuMilliseconds(append(servers, operatorName, bareLoop)...) }
	costs := table{append([]string{"creation, ms per account", "accounts", "elapsed", "all processes", operatorName + " or loop"}, servers...)}
	row := func(name string, one created) {
		cells := []string{name, fmt.Sprint(one.accounts()), number(elapsed(one)), number(busy(one)), number(one.cpuMilliseconds(operatorName, bareLoop))}
		for _, server := range servers {
			cells = append(cells, number(one.cpuMilliseconds(server)))
		}
		costs.row(cells...)
	}
	row("bare loop, before", loop[0])
	for _, one := range own {
		row(fmt.Sprintf("operator, to %d", one.until), one)
	}
	row("bare loop, after", loop[1])
	costs.print(c.b.out)
	c.b.note("elapsed is from the first creation until all are Ready; the client that creates and watches the objects is in no column")
	ratios := table{{"creation", "ratio", "min", "max", "target", ""}}
	for _, one := range []struct {
		what string
		of   func(created) float64
	}{{"elapsed time", elapsed}, {"processor time", busy}} {
		found := c.b.add(result{Benchmark: c.b.name, Case: "creation, " + one.what, Figure: "ratio to the bare loop", Target: maximum(1.3),
			Inputs: map[string]float64{"operatorMilliseconds": one.of(all), "bareMilliseconds": (one.of(loop[0]) + one.of(loop[1])) / 2}}, ratio(one.of)...)
		ratios.row(append([]string{one.what}, found.cells()...)...)
	}
	ratios.print(c.b.out)
}

// reportMemory reports the memory per account as the slope between the first size and the last.
func (c *cluster) reportMemory(sizes []footprint, most float64) {
	shown := table{{"memory of the operator", "heap after GC, MiB", "resident, MiB"}}
	for _, one := range sizes {
		shown.row(fmt.Sprintf("%d accounts", one.accounts), number(one.heap), number(one.resident))
	}
	shown.print(c.b.out)
	first, last := sizes[0], sizes[len(sizes)-1]
	if first.accounts == last.accounts {
		return
	}
	slopes := table{{"KiB per account", "slope", "min", "max", "target", ""}}
	for _, one := range []struct {
		what        string
		first, last float64
	}{{"heap after GC", first.heap, last.heap}, {"resident", first.resident, last.resident}} {
		slope := max(0.001, (one.last-one.first)*1024/float64(last.accounts-first.accounts))
		found := c.b.add(result{Benchmark: c.b.name, Case: "memory, " + one.what, Figure: "KiB per account", Target: maximum(most)}, slope)
		slopes.row(append([]string{one.what}, found.cells()...)...)
	}
	slopes.print(c.b.out)
}

// backgroundFor is how long the servers are measured without an operator.
const backgroundFor = 30 * time.Second

// quietFor is how long the operator writes nothing and has nothing to do before it counts as settled.
const quietFor = 3 * time.Second

// measureIdle counts what the operator does while nobody does anything.
func (c *cluster) measureIdle(ctx context.Context, f fleet) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	before, err := c.counters(ctx)
	if err != nil {
		return err
	}
	c.b.say("%s: idle for %s", c.b.name, c.b.Idle)
	if err := wait(c.b.Idle)(ctx); err != nil {
		return err
	}
	after, err := c.counters(ctx)
	if err != nil {
		return err
	}
	used := after.since(before)
	seconds := used.took.Seconds()
	shown := table{{"idle", "per second", "min", "max", "target", ""}}
	for _, one := range []struct {
		what   string
		value  float64
		target *target
	}{
		{"API writes", used.apiWrites() / seconds, maximum(0.001)},
		{"SQL statements", used.statements / seconds, maximum(5)},
		{"transaction ids", max(0, used.transactions/seconds-c.background), maximum(0.05)},
		{"S3 requests", used.s3 / seconds, maximum(20)},
		{"share of a core", used.cpu[operatorName] / seconds, maximum(0.05)},
	} {
		// A figure of a benchmark is positive.
		found := c.b.add(result{Benchmark: c.b.name, Case: "idle, " + one.what, Figure: "per second", Target: one.target}, max(one.value, 1e-6))
		shown.row(append([]string{one.what}, found.cells()...)...)
	}
	shown.print(c.b.out)
	c.b.note("%s idle with %d accounts. API writes are those of apiserver_request_total without the leader election; statements are those of the operator's role in pg_stat_statements, BEGIN and COMMIT included; "+
		"transaction ids are those of the cluster without the %s a second that it used while no operator ran; S3 requests are those that passed a proxy.", used.took.Round(time.Second), f.accounts, number(c.background))
	c.noteTop(used, 1/seconds, "a second")
	return nil
}
