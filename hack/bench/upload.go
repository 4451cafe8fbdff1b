package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
)

// upload compares uploads through REST with bare puts of the same bytes, and with puts
// through a relay that does nothing else.
func upload(ctx context.Context, b *bench) error {
	t, err := b.rig.tenant(ctx, "upload")
	if err != nil {
		return err
	}
	e, err := b.rig.serve(ctx, service, t, nil)
	if err != nil {
		return err
	}
	through, err := b.rig.serveRelay(ctx)
	if err != nil {
		return err
	}
	names := b.rig.columns(client, service, relay, postgres, store)
	speed := table{{"file", "against", "REST/s", "its/s", "ratio", "min", "max", "aim", ""}}
	work := table{append([]string{"CPU ms per upload", "side"}, append(names, "all")...)}
	for _, size := range []struct {
		name  string
		bytes int
		aim   float64
	}{{"100 KB", 100_000, 0.8}, {"10 MB", 10_000_000, 0.9}} {
		sides, err := b.uploads(t, e, through, size.bytes)
		if err != nil {
			return err
		}
		rounds, err := b.turns(ctx, size.name, load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, sides...)
		if err != nil {
			return err
		}
		rest := rates(rounds[0])
		for i, other := range sides[1:] {
			wanted := atLeast(size.aim)
			if other.name == relay {
				wanted = nil
			}
			its := rates(rounds[i+1])
			found := b.add(result{Benchmark: b.name, Case: size.name + ", " + other.name, Figure: "ratio of files/s", Aim: wanted,
				Behind: map[string]float64{"restPerSecond": median(rest), "barePerSecond": median(its)}}, ratios(rest, its)...)
			speed.row(append([]string{size.name, other.name, number(median(rest)), number(median(its))}, found.cells()...)...)
		}
		for i, s := range sides {
			work.row(append([]string{size.name, s.name}, b.workCells(rounds[i], names)...)...)
		}
	}
	speed.print(b.out, 2)
	b.note("")
	work.print(b.out, 2)
	peak, _ := memoryOf(e.PID(), "VmHWM")
	b.note("%d clients; the client and all servers share the cores, so CPU time is what decides; the runtime's peak was %.0f MiB", b.Clients, peak)
	return nil
}

// workCells shows CPU time by process, and their sum.
func (b *bench) workCells(rounds []round, names []string) []string {
	all := median(figures(rounds, func(r round) float64 {
		sum := 0.0
		for _, name := range names {
			sum += r.perCall(name)
		}
		return sum
	}))
	return append(cpuCells(rounds, names), fmt.Sprintf("%.2f", all))
}

func (b *bench) uploads(t tenant, e, through *endpoint, size int) ([]side, error) {
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	f, err := newForm("bench.bin", data)
	if err != nil {
		return nil, err
	}
	var lastKey atomic.Value
	// One object of each round is read again, and all of them are removed.
	check := func(prefix string) func(context.Context) error {
		return func(ctx context.Context) error {
			key, _ := lastKey.Load().(string)
			if err := b.compareHash(ctx, t, key, sum); err != nil {
				return err
			}
			return t.drop(prefix)
		}
	}
	viaREST := side{name: "REST", after: check("media"), call: func(ctx context.Context, _ int64) error {
		draft, err := e.store(ctx, f)
		if err == nil {
			lastKey.Store(original(draft.MediaID))
		}
		return err
	}}
	// Keys of the service's depth: a store that keeps folders pays for them.
	direct := side{name: "minio-go", after: check("bare"), call: func(ctx context.Context, n int64) error {
		key := fmt.Sprintf("bare/%d/original", n)
		_, err := b.rig.bare.Client.PutObject(ctx, t.account.Bucket, key, bytes.NewReader(data), int64(size),
			minio.PutObjectOptions{DisableContentSha256: true})
		if err == nil {
			lastKey.Store(key)
		}
		return err
	}}
	passed := side{name: relay, after: check("relayed"), call: func(ctx context.Context, n int64) error {
		key := fmt.Sprintf("relayed/%d/original", n)
		_, err := through.do(ctx, http.MethodPut, "/"+t.account.Bucket+"/"+key, bytes.NewReader(data), "", http.StatusOK)
		if err == nil {
			lastKey.Store(key)
		}
		return err
	}}
	return []side{viaREST, direct, passed}, nil
}

// original is the key of an item's file.
func original(mediaID string) string { return "media/" + mediaID + "/original" }

// compareHash reads an object and compares it with what was stored.
func (b *bench) compareHash(ctx context.Context, t tenant, key string, want [sha256.Size]byte) error {
	body, _, _, err := b.rig.bare.GetObject(ctx, t.account.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return fmt.Errorf("read %s again: %w", key, err)
	}
	defer body.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, body); err != nil {
		return fmt.Errorf("read %s again: %w", key, err)
	}
	if [sha256.Size]byte(digest.Sum(nil)) != want {
		return fmt.Errorf("%s has other bytes than were stored", key)
	}
	return nil
}
