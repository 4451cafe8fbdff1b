package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// purge measures how many expired drafts are purged per second, and the latency of other requests meanwhile.
func purge(ctx context.Context, b *bench) error {
	old, err := b.env.tenant(ctx, "old")
	if err != nil {
		return err
	}
	_, e, err := b.serveTenant(ctx, "busy")
	if err != nil {
		return err
	}
	defer e.Stop()
	if err := b.makeDrafts(ctx, old); err != nil {
		return err
	}
	calls, err := b.besideCalls(ctx, e, maximum(1.5))
	if err != nil {
		return err
	}
	// The only program that is run and waited for is the purge.
	busy, err := b.compareLatency(ctx, calls, []string{client, service, postgres, store, vips}, phase{"purge", func(ctx context.Context) error {
		summary, err := b.runPurge(ctx)
		if err == nil && (summary.DraftsPurged != b.Drafts || summary.RemovalsFailed != 0) {
			err = fmt.Errorf("of %d drafts the purge reports: %+v", b.Drafts, summary)
		}
		if err != nil {
			return err
		}
		return b.untilRemoved(ctx, old)
	}})
	if err != nil {
		return err
	}
	took := busy[0].took
	perSecond := float64(b.Drafts) / took.Seconds()
	b.add(result{Benchmark: b.name, Case: fmt.Sprintf("%d drafts", b.Drafts), Figure: "items/s", Inputs: map[string]float64{"seconds": took.Seconds()}}, perSecond)
	b.note("vips is the purge; %d drafts and their objects were purged in %s: %s a second", b.Drafts, took.Round(time.Second/10), number(perSecond))
	return b.noteTables(ctx)
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
	if err := b.storeObjects(ctx, t, ids, func(uuid.UUID) []byte { return data }); err != nil {
		return err
	}
	b.say("%s: %d drafts with their objects made in %s", b.name, b.Drafts, time.Since(started).Round(time.Second))
	return b.env.vacuum(ctx)
}

// storeObjects stores the original of each item.
func (b *bench) storeObjects(ctx context.Context, t tenant, ids []uuid.UUID, file func(id uuid.UUID) []byte) error {
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for n, id := range ids {
		if n > 0 && n%20_000 == 0 {
			b.say("%s: %d of %d objects stored", b.name, n, len(ids))
		}
		group.Go(func() error {
			data := file(id)
			_, err := b.env.bare.Client.PutObject(writing, t.Account.Bucket, media.ObjectKey(id, media.Original), bytes.NewReader(data), int64(len(data)),
				minio.PutObjectOptions{DisableContentSha256: true})
			return err
		})
	}
	return group.Wait()
}

// runPurge runs one pass, as the CronJob does.
func (b *bench) runPurge(ctx context.Context) (media.PurgeSummary, error) {
	var summary media.PurgeSummary
	binary, err := setup.FindBinary("mediastack-runtime")
	if err != nil {
		return summary, err
	}
	command := exec.CommandContext(ctx, binary, "purge")
	command.Env = slices.Concat(os.Environ(), b.env.storeSettings())
	var output bytes.Buffer
	command.Stderr = &output
	line, err := command.Output()
	if err != nil {
		return summary, fmt.Errorf("the purge: %w: %.500s", err, output.String())
	}
	return summary, json.Unmarshal(line, &summary)
}

// untilRemoved waits until no object of a draft is left. The service removes what the purge has queued, too: the purge ends
// before its objects are gone if the service has taken some of them.
func (b *bench) untilRemoved(ctx context.Context, t tenant) error {
	for deadline := time.Now().Add(stalled); ; {
		left, err := b.leftOver(ctx, t)
		if err != nil || left == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the purge left %q for %s", left, stalled)
		}
		if err := wait(100 * time.Millisecond)(ctx); err != nil {
			return err
		}
	}
}

// leftOver returns the key of an object of the tenant; it is empty if there is none.
func (b *bench) leftOver(ctx context.Context, t tenant) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	object := <-b.env.bare.Client.ListObjects(ctx, t.Account.Bucket, minio.ListObjectsOptions{Prefix: "media/", Recursive: true})
	return object.Key, object.Err
}
