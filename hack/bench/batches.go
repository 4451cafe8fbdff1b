package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// batchAccounts is the number of accounts that upload at once, and batchBytes the size of each file.
const (
	batchAccounts = 16
	batchBytes    = 100_000
)

// batches measures uploads of one and of many accounts, through one and through two replicas, and with
// more clients than slots. With --against, a runtime of another version takes turns.
func batches(ctx context.Context, b *bench) error {
	tenants := make([]tenant, batchAccounts)
	for i := range tenants {
		var err error
		if tenants[i], err = b.env.tenant(ctx, "batch-"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	var versions []version
	for _, v := range []version{{name: "", binary: ""}, {name: "other ", binary: b.Against}} {
		if v.name != "" && v.binary == "" {
			continue
		}
		for i := range v.replicas {
			var err error
			if v.replicas[i], err = b.env.serveBinary(ctx, fmt.Sprintf("%sruntime %d", v.name, i+1), v.binary, tenants[0]); err != nil {
				return err
			}
		}
		versions = append(versions, v)
	}
	p99 := map[int][]float64{} // of 16 accounts through one replica, by the number of clients
	times := table{{"clients", "side", "uploads/s", "p50, ms", "p99, ms", "runtime, CPU ms", "PostgreSQL", "S3", "answered 429"}}
	for _, load := range []struct {
		clients int
		sides   []batchSide
	}{
		{1, []batchSide{{1, 1}}},
		{b.Clients, []batchSide{{1, 1}, {batchAccounts, 1}, {1, 2}, {batchAccounts, 2}}},
		{64, []batchSide{{1, 1}, {batchAccounts, 1}, {batchAccounts, 2}}},
		{256, []batchSide{{1, 1}, {batchAccounts, 1}}},
	} {
		rounds, err := b.measureBatches(ctx, &times, load.clients, load.sides, versions, tenants)
		if err != nil {
			return err
		}
		at := slices.Index(load.sides, batchSide{batchAccounts, 1})
		p99[load.clients] = figures(rounds[max(0, at)*len(versions)], func(r round) float64 { return float64(r.percentile(0.99)) })
	}
	b.add(result{Benchmark: b.name, Case: "p99 of 256 clients, 16 accounts", Figure: "ratio to 64 clients", Target: maximum(3)}, ratios(p99[256], p99[64])...)
	times.print(b.out)
	return nil
}

// version is a version of the runtime, with its replicas.
type version struct {
	name, binary string
	replicas     [2]*endpoint
}

// batchSide is a number of accounts that upload through a number of replicas.
type batchSide struct{ accounts, replicas int }

func (s batchSide) String() string {
	return fmt.Sprintf("%d accounts, %d replicas", s.accounts, s.replicas)
}

func (b *bench) measureBatches(ctx context.Context, times *table, clients int, of []batchSide, versions []version, tenants []tenant) ([][]round, error) {
	f := newForm("bench.bin", randomBytes(batchBytes))
	var sides []side
	busy := make([]atomic.Int64, len(of)*len(versions))
	for _, s := range of {
		for _, v := range versions {
			rejected := &busy[len(sides)]
			sides = append(sides, side{
				name: v.name + s.String(),
				call: func(ctx context.Context, n int64) error {
					return uploadUntilAccepted(ctx, v.replicas[n%int64(s.replicas)], tenants[(n/int64(s.replicas))%int64(s.accounts)].APIKey, f, rejected)
				},
				after: func(context.Context) error {
					for _, t := range tenants {
						if err := t.removeObjects("media"); err != nil {
							return err
						}
					}
					return nil
				},
			})
		}
	}
	rounds, err := b.measureRounds(ctx, fmt.Sprintf("%d clients", clients), load{clients: clients, rounds: b.Rounds, length: b.Length}, sides...)
	if err != nil {
		return nil, err
	}
	for i, s := range sides {
		var runtimes []string
		for name := range b.env.watched {
			if name != postgres && name != store {
				runtimes = append(runtimes, name)
			}
		}
		slices.Sort(runtimes)
		times.row(strconv.Itoa(clients), s.name, number(median(rates(rounds[i]))), percentiles(rounds[i], 0.5), percentiles(rounds[i], 0.99), perCalls(rounds[i], runtimes...), perCalls(rounds[i], postgres), perCalls(rounds[i], store), strconv.FormatInt(busy[i].Load(), 10))
	}
	return rounds, nil
}

// perCalls shows the CPU milliseconds per call of processes together: the median of the rounds.
func perCalls(rounds []round, processes ...string) string {
	return fmt.Sprintf("%.2f", median(figures(rounds, func(r round) float64 {
		sum := 0.0
		for _, name := range processes {
			sum += r.perCall(name)
		}
		return sum
	})))
}

// percentiles shows the time that a part of the calls did not exceed: the median of the rounds.
func percentiles(rounds []round, part float64) string {
	return milliseconds(time.Duration(median(figures(rounds, func(r round) float64 { return float64(r.percentile(part)) }))))
}

// uploadUntilAccepted uploads a form, again while it is answered 429.
func uploadUntilAccepted(ctx context.Context, e *endpoint, key string, f form, rejected *atomic.Int64) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.baseURL+"/media/create", bytes.NewReader(f.body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", f.contentType)
		request.Header.Set("x-service-apikey", key)
		_, err = e.send(request, http.StatusCreated)
		if !isStatus(err, http.StatusTooManyRequests) {
			return err
		}
		rejected.Add(1)
		if err := wait(200 * time.Millisecond)(ctx); err != nil {
			return err
		}
	}
}
