package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// activeFiles is how many files there are to read: one account has them all, or each of many accounts a part of them.
const activeFiles = 2000

// activeBytes is the size of each of them.
const activeBytes = 10_000

// accountsRounds is how many times longer a round is than that of other benchmarks: its p99 is of some hundred requests.
const accountsRounds = 2

// accounts compares requests of many active accounts with those of one, on one replica: as many, at the same pace, from as
// many clients, of as many items.
func accounts(ctx context.Context, b *bench) error {
	names := make([]string, b.Active+1)
	for i := range names {
		names[i] = fmt.Sprintf("active-%04d", i)
	}
	tenants, err := b.env.tenants(ctx, names...)
	if err != nil {
		return err
	}
	b.say("%s: %d accounts made", b.name, len(tenants))
	e, err := b.env.serve(ctx, service, tenants[0])
	if err != nil {
		return err
	}
	one, many := &activeAccounts{b: b, name: "1 account"}, &activeAccounts{b: b, name: fmt.Sprintf("%d accounts", b.Active)}
	for i, t := range tenants {
		of := *e
		of.key = t.APIKey
		group := many
		if i == 0 {
			group = one
		}
		group.tenants, group.endpoints = append(group.tenants, t), append(group.endpoints, &of)
	}
	groups := []*activeAccounts{one, many}

	c := b.compareTimes("1", fmt.Sprint(b.Active), client, service, postgres, store)
	statements := newStatementTable()
	measure := func(what string, pace int, of func(g *activeAccounts) side) error {
		l := load{clients: b.Clients, rounds: b.Rounds, length: accountsRounds * b.Length, pace: pace}
		url, logs := b.env.server.AdminURL(database), make([]statementLog, len(groups))
		if err := (statementLog{}).read(ctx, url); err != nil { // what came before
			return err
		}
		var sides []side
		for i, g := range groups {
			logs[i] = statementLog{}
			sides = append(sides, countStatements(of(g), logs[i], url))
		}
		if err := c.measureTimes(ctx, what, l, sides, maximum(1.3)); err != nil {
			return err
		}
		for i, g := range groups {
			statements.statements(what, g.name, logs[i].costliest(3))
		}
		return nil
	}
	for _, size := range []int{100_000, 10_000} {
		for _, g := range groups {
			// The first upload of a process in an account registers the process, which is no part of the others.
			if err := g.each(ctx, func(ctx context.Context, e *endpoint) error {
				_, err := e.store(ctx, newForm("bench.bin", randomBytes(size)))
				return err
			}); err != nil {
				return err
			}
		}
		data := randomBytes(size)
		if err := measure("upload of "+sizeName(size), b.Rate, func(g *activeAccounts) side { return g.uploads(data) }); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := g.storeFiles(ctx); err != nil {
			return err
		}
	}
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	for _, read := range []struct {
		what string
		of   func(g *activeAccounts) side
	}{{"get", (*activeAccounts).gets}, {"download of " + sizeName(activeBytes), (*activeAccounts).downloads}} {
		if err := measure(read.what, getsPerUpload*b.Rate, read.of); err != nil {
			return err
		}
	}
	c.print()
	b.note("")
	statements.print(b.out)
	b.note("%d uploads a second, or %d gets or downloads, at an even pace, %d clients, %d files to read on both sides; the time of a request is from when it was due",
		b.Rate, getsPerUpload*b.Rate, b.Clients, activeFiles)
	return nil
}

// getsPerUpload is how many times more gets and downloads than uploads come in a second.
const getsPerUpload = 4

// activeAccounts are accounts whose requests take turns.
type activeAccounts struct {
	b         *bench
	name      string
	tenants   []tenant
	endpoints []*endpoint // one for each tenant
	// files are those of each tenant.
	files []*files
	// turns counts the calls of all rounds: each round goes on with the account that comes next.
	turns atomic.Int64
}

// each calls do for all accounts, some beside each other.
func (g *activeAccounts) each(ctx context.Context, do func(ctx context.Context, e *endpoint) error) error {
	group, calling := errgroup.WithContext(ctx)
	group.SetLimit(g.b.Clients)
	for _, e := range g.endpoints {
		group.Go(func() error { return do(calling, e) })
	}
	return group.Wait()
}

// uploads uploads a file to the accounts in turns. After each round an object of it is read again, and all are removed.
func (g *activeAccounts) uploads(data []byte) side {
	type stored struct {
		t      tenant
		prefix string
	}
	var last atomic.Pointer[stored]
	f, sum := newForm("bench.bin", data), sha256.Sum256(data)
	return side{name: g.name, call: func(ctx context.Context, _ int64) error {
		at, _ := g.turn()
		draft, err := g.endpoints[at].store(ctx, f)
		if err == nil {
			last.Store(&stored{g.tenants[at], original(draft.MediaID)})
		}
		return err
	}, after: func(ctx context.Context) error {
		one := last.Load()
		if err := g.b.compareHash(ctx, one.t, one.t.keyOf(one.prefix), sum); err != nil {
			return err
		}
		for _, t := range g.tenants {
			if err := t.removeObjects("media"); err != nil {
				return err
			}
		}
		return nil
	}}
}

// storeFiles stores the files that are read.
func (g *activeAccounts) storeFiles(ctx context.Context) error {
	g.files = make([]*files, len(g.endpoints))
	copies := max(1, activeFiles/len(g.endpoints))
	return g.each(ctx, func(ctx context.Context, e *endpoint) (err error) {
		at := slices.Index(g.endpoints, e)
		g.files[at], err = g.b.storeFiles(ctx, e, activeBytes, copies)
		return err
	})
}

// turn returns the account of the next call, and which of its files it reads.
func (g *activeAccounts) turn() (account int, file int64) {
	n := g.turns.Add(1)
	return int(n % int64(len(g.endpoints))), n / int64(len(g.endpoints))
}

// gets reads the descriptions of the items in turns.
func (g *activeAccounts) gets() side {
	return side{name: g.name, call: func(ctx context.Context, _ int64) error {
		at, file := g.turn()
		_, err := g.endpoints[at].get(ctx, "/media/get/"+g.files[at].of(file).MediaID)
		return err
	}}
}

// downloads reads the files in turns.
func (g *activeAccounts) downloads() side {
	return side{name: g.name, call: func(ctx context.Context, _ int64) error {
		at, file := g.turn()
		return g.files[at].through(g.endpoints[at])(ctx, file)
	}}
}
