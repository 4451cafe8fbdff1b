package consistency_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
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
		d.clock.Advance(10 * time.Minute)
		finds("after an hour", young)
		d.clock.Advance(-time.Hour)
		young = newKey(number)
		finds("with the writer")
		stays("with the writer", young)
		d.sql(`DELETE FROM upload_writer WHERE number = $1`, number)
		finds("without the writer", young)
		d.balanced()
	})
}
