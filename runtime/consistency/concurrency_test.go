package consistency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/upload"
)

// Uploads, seals, deletes and purges in flight cause no finding and no repair.
func TestCheck_FindsNothingBesideRunningService(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		log := slog.New(slog.DiscardHandler)
		runtimetest.Lease(t, d.store) // small files are stored before they are recorded
		replica := d.newReplica(time.Now)
		purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 300 * time.Millisecond}, MaxAttempts: 1000, RemovalConfig: media.RemovalConfig{BatchSize: 5, MaxBackoff: time.Second}},
			media.PurgeDeps{Store: d.store.Items, Tasks: d.store.Tasks, Objects: d.objects, Guard: d.Guard(), Now: time.Now, Log: log})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		sealed := map[uuid.UUID][]byte{}
		var done, parts atomic.Int64
		var all sync.WaitGroup
		gone := errors.New("the client has disconnected")
		act := func(client, n int) {
			size := 100*client + n%50
			if client == 0 {
				size = upload.PartSize + 100 + n
				parts.Add(1)
			}
			data := random(size)
			var file io.Reader = bytes.NewReader(data)
			if n%5 == 4 {
				file = io.MultiReader(bytes.NewReader(data), failing{gone})
			}
			item, err := uploadFile(t.Context(), replica.Uploads, d.principal, file, media.Fields{Group: fmt.Sprint("g", n%3)})
			if err != nil {
				if !errors.Is(err, gone) {
					t.Errorf("upload: %v", err)
				}
				return
			}
			done.Add(1)
			switch n % 4 {
			case 0: // stays a draft, for the purge
			case 1:
				if err := deleteItem(t.Context(), replica.Items, d.principal, item.ID); err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("delete: %v", err)
				}
			default:
				if _, err := replica.Items.Seal(t.Context(), d.principal, item.ID); fault.Is(err, fault.NotFound) {
					return // purged: the machine was slow
				} else if err != nil {
					t.Errorf("seal: %v", err)
				}
				if n%4 == 2 {
					mu.Lock()
					sealed[item.ID] = data
					mu.Unlock()
				} else if err := deleteItem(t.Context(), replica.Items, d.principal, item.ID); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		}
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := purger.Run(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("purge: %v", err)
				}
			}
		})
		// The work of a round is fixed, and a round ends with the slower of clients and check:
		// the speed of the store changes neither the work nor the memory that it needs.
		for round := range 24 {
			var clients sync.WaitGroup
			for client := range 6 {
				clients.Go(func() {
					for n := range min(1+2*client, 3) { // one file in parts, three of the others
						act(client, 3*round+n)
					}
				})
			}
			cfg := consistency.Config{Repair: round%2 == 1, Deep: round%8 > 5}
			summary, findings := d.check(cfg)
			clients.Wait()
			if len(findings) > 0 {
				t.Errorf("round %d, %+v: %+v %+v", round, cfg, summary, findings)
				break
			}
		}
		stop()
		all.Wait()
		t.Logf("%d uploads, %d of them in parts, %d sealed", done.Load(), parts.Load(), len(sealed))
		for id, data := range sealed {
			item, err := replica.Items.Get(t.Context(), d.principal, id)
			must(t, err)
			if !bytes.Equal(d.bytesOf(item.File()), data) {
				t.Errorf("item %s lost bytes", id)
			}
		}
		if summary, findings := d.check(consistency.Config{Deep: true}); len(findings) > 0 {
			t.Errorf("at the end: %+v %+v", summary, findings)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Counters are repaired beside the service: increments between the recount and the repair
// are neither lost nor counted twice.
func TestRepairCounters_ExactBesideSealsAndDeletes(t *testing.T) {
	t.Parallel()
	d := newFixture(t, testenv.S3(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				item := d.sealed(random(10+client), media.Fields{Group: "g"})
				if client%2 == 0 {
					must(t, deleteItem(t.Context(), d.Items, d.principal, item.ID))
				}
			}
		})
	}
	for round := range 40 {
		d.sql(`UPDATE app_total SET bytes = bytes + 7, public_items = public_items - 1 WHERE app_id = $1 AND slot = $2`, d.principal.App.ID, round%16)
		d.sql(`UPDATE account_usage SET bytes = bytes + 1000 WHERE account_id = $1`, d.principal.Account.ID)
		d.sql(`INSERT INTO group_total (app_id, group_label, slot, private_items) VALUES ($1, 'g', 9, 1) ON CONFLICT (app_id, group_label, slot) DO UPDATE SET private_items = group_total.private_items + 1`, d.principal.App.ID)
		// Two concurrent repairs must not add twice.
		var repairs sync.WaitGroup
		var repaired atomic.Int64
		for range 2 {
			repairs.Go(func() {
				drifts, err := d.store.Consistency.RepairCounters(t.Context(), d.principal.Account.ID)
				if err != nil {
					t.Errorf("repair: %v", err)
				}
				repaired.Add(int64(len(drifts)))
			})
		}
		repairs.Wait()
		if repaired.Load() != 3 {
			t.Errorf("round %d: %d counters were repaired", round, repaired.Load())
		}
		drifts, err := d.store.Consistency.FindDrift(t.Context(), d.principal.Account.ID)
		must(t, err)
		if len(drifts) > 0 {
			t.Fatalf("round %d: %+v", round, drifts)
		}
	}
	stop()
	all.Wait()
	d.balanced()
}

// passing is a store whose listing contains an object that is deleted right after it, and a
// multipart upload that is completed.
type passing struct {
	*objectstore.Store
	key string
}

func (p passing) List(ctx context.Context, bucket, prefix string, visit func(media.ObjectInfo) error) error {
	if err := p.Store.List(ctx, bucket, prefix, visit); err != nil {
		return err
	}
	return visit(media.ObjectInfo{Key: p.key, Bytes: 1})
}

func (p passing) ListIncomplete(ctx context.Context, bucket, prefix string, visit func(media.IncompleteUpload) error) error {
	if prefix == "" {
		if err := visit(media.IncompleteUpload{Key: p.key}); err != nil {
			return err
		}
	}
	return p.Store.ListIncomplete(ctx, bucket, prefix, visit)
}

func TestCheck_DropsCandidatesGoneOnRecheck(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		d.sealed(random(10), media.Fields{})
		objects := passing{d.objects, media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)}
		checker, err := consistency.NewChecker(d.store.Consistency, objects, d.Guard(), consistency.Config{}, d.clock.Now, slog.New(slog.DiscardHandler))
		must(t, err)
		var summary consistency.Summary
		must(t, checker.Check(t.Context(), d.principal.Account, &summary, func(f consistency.Finding) error {
			t.Errorf("found %+v", f)
			return nil
		}))
	})
}
