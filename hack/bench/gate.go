package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/account"
)

const (
	// gateBytes is the size of the files that are checked.
	gateBytes = 100_000
	// gatePause is after how long a client asks again whether its file is sealed.
	gatePause = 10 * time.Millisecond
	// sealDelay is what the p99 of the time from the answer to an upload until the file is sealed should be, in milliseconds.
	sealDelay = 300
)

// gates compares uploads that are sealed at once in an account whose files are checked with those in one without a gate, and the scan of
// clamd through the service with a bare one.
func gates(ctx context.Context, b *bench) error {
	clamd, err := b.env.group.StartClamd(ctx, servers.ClamdConfig{Dir: filepath.Join(b.env.dir, "clamd"), LogFile: filepath.Join(b.env.dir, "clamd.log")})
	if err != nil {
		return err
	}
	b.env.watched[scans] = clamd.PID()
	made, err := b.env.tenants(ctx, "gated", "free")
	if err != nil {
		return err
	}
	gated, free := made[0], made[1]
	of, err := json.Marshal(account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: gateBytes})
	if err != nil {
		return err
	}
	if err := b.env.execute(ctx, `UPDATE account SET gate = $2::jsonb WHERE id = $1::uuid`, gated.Account.ID, string(of)); err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, gated, "SERVICE_CLAMD_ADDRESS=tcp://"+clamd.Address)
	if err != nil {
		return err
	}
	defer e.Stop()
	without := *e
	without.key = free.APIKey
	delays := &delays{}
	c := b.compareTimes("no gate", "clamd", client, service, postgres, store, scans)
	if err := c.measureTimes(ctx, "upload and seal", load{clients: b.Clients, rounds: b.Rounds, length: time.Duration(b.Gated) * time.Second / time.Duration(b.Rounds*b.Pace), pace: b.Pace},
		[]side{{name: "no gate", call: b.untilSealed(&without, nil)}, {name: "clamd", call: b.untilSealed(e, delays)}}, nil); err != nil {
		return err
	}
	c.print()
	b.add(result{Benchmark: b.name, Case: "answer to the upload until it is sealed", Figure: "p99 ms", Target: maximum(sealDelay)}, delays.percentile(0.99))
	bare, err := b.measure(ctx, load{clients: b.Clients, length: b.Length, pace: b.Pace}, bareScan(clamd.Address))
	if err != nil {
		return err
	}
	b.add(result{Benchmark: b.name, Case: "the same against a bare scan", Figure: "ratio of p50"}, delays.percentile(0.5)*float64(time.Millisecond)/float64(max(1, bare.percentile(0.5))))
	b.note("a bare scan takes %s ms (p50) and %s ms (p99)", milliseconds(bare.percentile(0.5)), milliseconds(bare.percentile(0.99)))
	b.note("%d files of %s, %d a second: sealed %.1f ms (p50), %.1f ms (p95) and %.1f ms (p99) after the answer to the upload; a client asks every %s", len(delays.all), sizeName(gateBytes), b.Pace,
		delays.percentile(0.5), delays.percentile(0.95), delays.percentile(0.99), gatePause)
	return nil
}

// untilSealed uploads a file, asks for its seal, and waits until it is sealed. delays gets the times from the answer to the upload on.
func (b *bench) untilSealed(e *endpoint, delays *delays) call {
	f := newForm("bench.bin", randomBytes(gateBytes))
	return func(ctx context.Context, _ int64) error {
		draft, err := e.store(ctx, f)
		if err != nil {
			return err
		}
		uploaded := time.Now()
		for {
			sealed, err := e.askSeal(ctx, draft.MediaID)
			if err != nil {
				return err
			}
			if sealed {
				delays.add(time.Since(uploaded))
				return nil
			}
			select {
			case <-time.After(gatePause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// askSeal asks for the seal of a draft, and reports whether it is sealed: 200, or 202 while its file is checked.
func (e *endpoint) askSeal(ctx context.Context, id string) (sealed bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.baseURL+"/media/seal/"+id, nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("x-service-apikey", e.key)
	got, err := exchange.Do(e.client, request)
	if err == nil && got.Status != http.StatusOK && got.Status != http.StatusAccepted {
		err = fmt.Errorf("the seal is answered %d: %.300s", got.Status, got.Body)
	}
	return got.Status == http.StatusOK, err
}

// delays collects times. It is safe for concurrent use; nil collects none.
type delays struct {
	mu  sync.Mutex
	all []time.Duration
}

func (d *delays) add(one time.Duration) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, one)
}

// percentile returns the milliseconds that a part of the times did not exceed.
func (d *delays) percentile(part float64) float64 {
	slices.Sort(d.all)
	return float64(d.all[min(len(d.all)-1, int(part*float64(len(d.all))))]) / float64(time.Millisecond)
}

// bareScan sends a file to clamd and reads the answer, with nothing around it.
func bareScan(address string) call {
	request := slices.Concat([]byte("zINSTREAM\x00"), binary.BigEndian.AppendUint32(nil, gateBytes), randomBytes(gateBytes), make([]byte, 4))
	return func(ctx context.Context, _ int64) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(request); err != nil {
			return err
		}
		answer, err := io.ReadAll(conn)
		if err == nil && string(answer) != "stream: OK\x00" {
			err = fmt.Errorf("clamd answers %q", answer)
		}
		return err
	}
}
