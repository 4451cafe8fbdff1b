package consistency_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// An object that a process may be about to record is no orphan: one that its writer names, while it is younger than an hour.
func TestCheck_LeavesTheYoungObjectsOfWriters(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		runtimetest.Lease(t, d.store)
		other := d.withAccount(t)
		_, number, ok := media.WriterOfKey(d.draft(random(11), media.Fields{}).File().Key)
		_, elsewhere, okElsewhere := media.WriterOfKey(other.draft(random(12), media.Fields{}).File().Key)
		if !ok || !okElsewhere || number == elsewhere {
			t.Fatalf("the writers of two accounts are %d and %d", number, elsewhere)
		}
		newKey := func(number int64) string {
			id, err := d.store.Uploads.Cell().NewID()
			must(t, err)
			key := media.WriterKey(id, media.Original, number)
			d.put(key, random(13))
			return key
		}
		// finds checks that exactly these objects are found, and that a repair removes them.
		finds := func(what string, want ...string) {
			t.Helper()
			slices.Sort(want)
			for _, repair := range []bool{false, true} {
				_, findings := d.check(consistency.Config{Repair: repair})
				var keys []string
				for _, f := range findings {
					if keys = append(keys, f.Key); f.Kind != consistency.OrphanObject || f.Repaired != repair {
						t.Errorf("%s: %+v", what, f)
					}
				}
				if slices.Sort(keys); !slices.Equal(keys, want) {
					t.Errorf("%s: the check finds %v, want %v", what, keys, want)
				}
			}
			stored := d.stored()
			for _, key := range want {
				if _, there := stored[key]; there {
					t.Errorf("%s: the repair has left %s", what, key)
				}
			}
		}
		stays := func(what string, key string) {
			t.Helper()
			if _, there := d.stored()[key]; !there {
				t.Errorf("%s: %s is gone", what, key)
			}
		}

		young := newKey(number)
		finds("with the writer")
		old := media.WriterKey(uuid.UUID{1}, media.Original, number)
		d.put(old, random(14))
		finds("with objects that the writer cannot have", old, newKey(elsewhere), newKey(number+elsewhere+1000))
		stays("with the writer", young)
		d.sql(`UPDATE upload_writer SET ended_at = now() WHERE number = $1`, number)
		finds("before the search for a writer that has ended")
		d.clock.Advance(50 * time.Minute)
		finds("within an hour")
		stays("within an hour", young)
		// Its process may only have been paused: it is found, and stays until the writer is gone.
		d.clock.Advance(10 * time.Minute)
		for _, repair := range []bool{false, true} {
			if _, findings := d.check(consistency.Config{Repair: repair}); len(findings) != 1 || findings[0].Key != young || findings[0].Kind != consistency.OrphanObject || findings[0].Repaired {
				t.Errorf("after an hour: %+v", findings)
			}
		}
		stays("after an hour", young)
		d.clock.Advance(-time.Hour)
		d.sql(`DELETE FROM upload_writer WHERE number = $1`, number)
		finds("without the writer", young)
		d.balanced()
	})
}

// putHook is a store that calls after once it has stored an object.
type putHook struct {
	media.ObjectStore
	after func()
}

func (s putHook) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	err := s.ObjectStore.Put(ctx, bucket, key, contentType, body, size)
	s.after()
	return err
}

// A process that was paused for hours between the object and its item, and that no other one has declared dead, records the item when it
// continues. A repair took its object meanwhile.
func TestRepair_TakesNoObjectFromAnUploadThatWasPaused(t *testing.T) {
	t.Parallel()
	d := newFixture(t, testenv.S3(t))
	runtimetest.Lease(t, d.store)
	paused := func() {
		d.clock.Advance(24 * time.Hour)
		d.check(consistency.Config{Repair: true, Grace: time.Hour})
	}
	replica := mediatest.NewReplica(t, mediatest.Config, upload.Deps{Store: d.store.Uploads, Objects: putHook{d.objects, paused}, Settings: d.Settings, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, d.store.Items)
	item, err := uploadFile(t.Context(), replica.Uploads, d.principal, bytes.NewReader(random(10)), media.Fields{})
	must(t, err)
	if _, _, stored := media.WriterOfKey(item.File().Key); !stored {
		t.Errorf("%s was recorded before it was stored", item.File().Key)
	}
	d.balanced()
}
