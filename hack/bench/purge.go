package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/media"
)

// draftBytes is how large the object of a draft is that is to be purged.
const draftBytes = 100

// purge makes drafts that are too old, and purges them beside a steady load: how many
// in a second, and what the load feels of it.
func purge(ctx context.Context, b *bench) error {
	old, err := b.rig.tenant(ctx, "old")
	if err != nil {
		return err
	}
	busy, err := b.rig.tenant(ctx, "busy")
	if err != nil {
		return err
	}
	if err := b.makeDrafts(ctx, old); err != nil {
		return err
	}
	e, err := b.rig.serve(ctx, service, busy, nil)
	if err != nil {
		return err
	}
	steady, err := b.newSteady(ctx, e)
	if err != nil {
		return err
	}
	// Warming up is not counted.
	if _, err := b.watch(ctx, steady, "warming up", afterwards(min(b.Idle, 3*time.Second))); err != nil {
		return err
	}
	before, err := b.watch(ctx, steady, "idle", afterwards(b.Idle))
	if err != nil {
		return err
	}
	var summary media.SweepSummary
	var took time.Duration
	during, err := b.watch(ctx, steady, "purge", func(ctx context.Context) error {
		started := time.Now()
		summary, err = b.runPurge(ctx)
		took = time.Since(started)
		return err
	})
	if err != nil {
		return err
	}
	if summary.DraftsPurged != b.Drafts || summary.RemovalsDone != b.Drafts || summary.RemovalsPending != 0 {
		return fmt.Errorf("of %d drafts the purge says: %+v", b.Drafts, summary)
	}
	if err := b.nothingLeft(ctx, old); err != nil {
		return err
	}
	after, err := b.watch(ctx, steady, "idle again", afterwards(b.Idle))
	if err != nil {
		return err
	}
	perSecond := float64(b.Drafts) / took.Seconds()
	b.add(result{Benchmark: b.name, Case: fmt.Sprintf("%d drafts", b.Drafts), Figure: "items/s",
		Behind: map[string]float64{"seconds": took.Seconds()}}, perSecond)
	b.note("%d drafts and their objects were purged in %s: %s a second", b.Drafts, took.Round(time.Second/10), number(perSecond))
	b.compareLatency(before, during, after)
	return nil
}

// makeDrafts loads drafts that are a day and an hour old, and stores their objects.
func (b *bench) makeDrafts(ctx context.Context, t tenant) error {
	started := time.Now()
	data := make([]byte, draftBytes)
	if _, err := rand.Read(data); err != nil {
		return err
	}
	var ids []uuid.UUID
	_, err := b.rig.seed(ctx, t, seed{items: b.Drafts, drafts: true, access: third, object: func(id uuid.UUID) (string, int64) {
		ids = append(ids, id)
		return fmt.Sprintf(`[{"variant":"original","key":%q,"bytes":%d,"mimeType":"application/octet-stream","sha256":"%064x"}]`,
			media.ObjectKey(id, media.Original), draftBytes, id[8:]), draftBytes
	}})
	if err != nil {
		return err
	}
	const writers = 16
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range writers {
		group.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(ids) {
					return nil
				}
				if n > 0 && n%20_000 == 0 {
					b.say("%s: %d of %d objects stored", b.name, n, len(ids))
				}
				_, err := b.rig.bare.Client.PutObject(ctx, t.account.Bucket, media.ObjectKey(ids[n], media.Original), bytes.NewReader(data), draftBytes,
					minio.PutObjectOptions{DisableContentSha256: true})
				if err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.say("%s: %d drafts with their objects made in %s", b.name, b.Drafts, time.Since(started).Round(time.Second))
	return b.rig.settle(context.WithoutCancel(ctx))
}

// runPurge runs one pass, as the CronJob does.
func (b *bench) runPurge(ctx context.Context) (media.SweepSummary, error) {
	binary, err := setup.FindBinary("mediastack-runtime")
	if err != nil {
		return media.SweepSummary{}, err
	}
	command := exec.CommandContext(ctx, binary, "purge")
	command.Env = append(os.Environ(), environment(b.rig.access())...)
	var said bytes.Buffer
	command.Stderr = &said
	line, err := command.Output()
	if err != nil {
		return media.SweepSummary{}, fmt.Errorf("the purge: %w: %.500s", err, said.String())
	}
	var summary media.SweepSummary
	return summary, json.Unmarshal(line, &summary)
}

// nothingLeft checks that the objects are really gone.
func (b *bench) nothingLeft(ctx context.Context, t tenant) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := b.rig.bare.Client.ListObjects(ctx, t.account.Bucket, minio.ListObjectsOptions{Prefix: "media/", Recursive: true})
	if object, ok := <-objects; ok {
		return errors.Join(object.Err, fmt.Errorf("the purge left %q", object.Key))
	}
	return nil
}

// steady is a load of requests that come at an even pace, whether or not the ones
// before them are answered: a service that stalls can't make them come later.
type steady struct {
	e    *endpoint
	form form
	ids  []string // of items to get
	pace int
}

func (b *bench) newSteady(ctx context.Context, e *endpoint) (*steady, error) {
	data := make([]byte, 10_000)
	if _, err := rand.Read(data); err != nil {
		return nil, err
	}
	f, err := newForm("bench.bin", data)
	if err != nil {
		return nil, err
	}
	s := &steady{e: e, form: f, pace: b.Pace}
	for range 100 {
		draft, err := e.store(ctx, f)
		if err != nil {
			return nil, err
		}
		s.ids = append(s.ids, draft.MediaID)
	}
	return s, nil
}

// felt are the times of requests while something went on, sorted.
type felt struct {
	gets, uploads round
	took          time.Duration
	cpu           usage
}

// watch keeps the load going while something else runs.
func (b *bench) watch(ctx context.Context, s *steady, what string, meanwhile func(context.Context) error) (felt, error) {
	b.say("%s: %d requests a second, %s", b.name, s.pace, what)
	before, err := b.rig.cpu()
	if err != nil {
		return felt{}, err
	}
	started := time.Now()
	running, stop := context.WithCancel(ctx)
	var found felt
	loaded := make(chan error, 1)
	go func() { loaded <- s.run(running, &found) }()
	err = meanwhile(ctx)
	stop()
	err = errors.Join(err, <-loaded)
	found.took = time.Since(started)
	if err != nil {
		return felt{}, err
	}
	after, err := b.rig.cpu()
	found.cpu = after.since(before)
	return found, err
}

// run sends requests until ctx ends, and waits for the answers to all of them.
func (s *steady) run(ctx context.Context, found *felt) error {
	const most = 1000 // in flight, before the load is taken to be too much
	answers := context.WithoutCancel(ctx)
	var mu sync.Mutex
	group, failed := errgroup.WithContext(answers)
	group.SetLimit(most)
	start := time.Now()
	for n := 0; ; n++ {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(s.pace))
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-failed.Done():
			return group.Wait()
		case <-time.After(time.Until(due)):
		}
		group.Go(func() error {
			upload := n%4 == 0
			// From when the request was due: what waits to be sent waits, too.
			if upload {
				if _, err := s.e.store(answers, s.form); err != nil {
					return err
				}
			} else if _, err := s.e.get(answers, "/media/get/"+s.ids[n%len(s.ids)]); err != nil {
				return err
			}
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if upload {
				found.uploads.times = append(found.uploads.times, took)
			} else {
				found.gets.times = append(found.gets.times, took)
			}
			return nil
		})
	}
}

// afterwards passes time.
func afterwards(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// compareLatency sets what requests took during the purge against what they took
// before and after it.
func (b *bench) compareLatency(before, during, after felt) {
	times := table{{"request", "idle p50, ms", "purge p50", "idle p99", "idle p99 again", "purge p99", "ratio", "min", "max", "aim", ""}}
	for _, kind := range []struct {
		what string
		of   func(felt) round
	}{{"get", func(f felt) round { return f.gets }}, {"upload, 10 KB", func(f felt) round { return f.uploads }}} {
		first, middle, last := sorted(kind.of(before)), sorted(kind.of(during)), sorted(kind.of(after))
		idle := sorted(round{times: slices.Concat(first.times, last.times)})
		ratio := func(idle round) float64 {
			return float64(middle.percentile(0.99)) / float64(max(1, idle.percentile(0.99)))
		}
		found := b.add(result{Benchmark: b.name, Case: "p99 of " + kind.what, Figure: "ratio to idle", Aim: below(1.5),
			Behind: map[string]float64{"idleMilliseconds": idle.percentile(0.99).Seconds() * 1000, "purgeMilliseconds": middle.percentile(0.99).Seconds() * 1000}},
			ratio(idle), ratio(first), ratio(last))
		times.row(append([]string{kind.what, milliseconds(idle.percentile(0.5)), milliseconds(middle.percentile(0.5)), milliseconds(first.percentile(0.99)),
			milliseconds(last.percentile(0.99)), milliseconds(middle.percentile(0.99))}, found.cells()...)...)
	}
	times.print(b.out, 1)
	b.note("")
	names := b.rig.columns(client, service, postgres, store)
	shares := table{append(append([]string{"cores busy"}, names...), "purge")}
	for _, one := range []struct {
		what string
		felt felt
	}{{"idle", before}, {"purge", during}, {"idle again", after}} {
		cells := []string{one.what}
		for _, name := range append(names, vips) { // the only program that is run and waited for here is the purge
			cells = append(cells, fmt.Sprintf("%.2f", one.felt.cpu[name]/one.felt.took.Seconds()))
		}
		shares.row(cells...)
	}
	shares.print(b.out, 1)
	b.note("%d requests a second come at an even pace, %d of them in all during the purge; the idle service is watched for %s before and after", b.Pace,
		len(during.gets.times)+len(during.uploads.times), b.Idle)
}

func sorted(r round) round {
	slices.Sort(r.times)
	return r
}
