package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/media"
)

// draftBytes is how large the object of a draft is that is to be purged.
const draftBytes = 100

// purge measures how many expired drafts are purged per second, and the latency of background
// requests meanwhile.
func purge(ctx context.Context, b *bench) error {
	old, err := b.env.tenant(ctx, "old")
	if err != nil {
		return err
	}
	busy, err := b.env.tenant(ctx, "busy")
	if err != nil {
		return err
	}
	if err := b.makeDrafts(ctx, old); err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, busy)
	if err != nil {
		return err
	}
	// The only program that is run and waited for is the purge.
	return b.compareLatency(ctx, e, "purge", vips, wait(min(b.Idle, 3*time.Second)), func(ctx context.Context) error {
		started := time.Now()
		summary, err := b.runPurge(ctx)
		took := time.Since(started)
		if err != nil {
			return err
		}
		if summary.DraftsPurged != b.Drafts || summary.RemovalsDone != b.Drafts || summary.RemovalsPending != 0 {
			return fmt.Errorf("of %d drafts the purge reports: %+v", b.Drafts, summary)
		}
		perSecond := float64(b.Drafts) / took.Seconds()
		b.add(result{Benchmark: b.name, Case: fmt.Sprintf("%d drafts", b.Drafts), Figure: "items/s",
			Inputs: map[string]float64{"seconds": took.Seconds()}}, perSecond)
		b.note("%d drafts and their objects were purged in %s: %s a second", b.Drafts, took.Round(time.Second/10), number(perSecond))
		return b.nothingLeft(ctx, old)
	})
}

// makeDrafts loads drafts that are a day and an hour old, and stores their objects.
func (b *bench) makeDrafts(ctx context.Context, t tenant) error {
	started := time.Now()
	data := randomBytes(draftBytes)
	var ids []uuid.UUID
	_, err := b.env.seed(ctx, t, seed{items: b.Drafts, drafts: true, access: third, object: func(id uuid.UUID) (string, int64) {
		ids = append(ids, id)
		return fmt.Sprintf(`[{"variant":"original","key":%q,"bytes":%d,"mimeType":"application/octet-stream","sha256":"%064x"}]`,
			media.ObjectKey(id, media.Original), draftBytes, id[8:]), draftBytes
	}})
	if err != nil {
		return err
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for n, id := range ids {
		if n > 0 && n%20_000 == 0 {
			b.say("%s: %d of %d objects stored", b.name, n, len(ids))
		}
		group.Go(func() error {
			_, err := b.env.bare.Client.PutObject(writing, t.Account.Bucket, media.ObjectKey(id, media.Original), bytes.NewReader(data), draftBytes,
				minio.PutObjectOptions{DisableContentSha256: true})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.say("%s: %d drafts with their objects made in %s", b.name, b.Drafts, time.Since(started).Round(time.Second))
	return b.env.vacuum(ctx)
}

// purgeSummary is what a pass prints.
type purgeSummary struct {
	media.PurgeSummary
	RenditionsPurged int `json:"renditionsPurged"`
}

// runPurge runs one pass, as the CronJob does.
func (b *bench) runPurge(ctx context.Context, settings ...string) (purgeSummary, error) {
	binary, err := setup.FindBinary("mediastack-runtime")
	if err != nil {
		return purgeSummary{}, err
	}
	command := exec.CommandContext(ctx, binary, "purge")
	command.Env = slices.Concat(os.Environ(), b.env.storeSettings(), settings)
	var output bytes.Buffer
	command.Stderr = &output
	line, err := command.Output()
	if err != nil {
		return purgeSummary{}, fmt.Errorf("the purge: %w: %.500s", err, output.String())
	}
	var summary purgeSummary
	return summary, json.Unmarshal(line, &summary)
}

// nothingLeft checks that the objects are really gone.
func (b *bench) nothingLeft(ctx context.Context, t tenant) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := b.env.bare.Client.ListObjects(ctx, t.Account.Bucket, minio.ListObjectsOptions{Prefix: "media/", Recursive: true})
	if object, ok := <-objects; ok {
		return errors.Join(object.Err, fmt.Errorf("the purge left %q", object.Key))
	}
	return nil
}
