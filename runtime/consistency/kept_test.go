package consistency_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

func TestCheck_KeepsRecentOrphans(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		key := media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)
		d.put(key, random(9))
		d.startMultipart(key)
		d.clock.Advance(30 * time.Minute)
		summary, findings := d.check(consistency.Config{Repair: true, Grace: time.Hour})
		if summary.Recent != 2 || summary.NeedsAttention != 0 || summary.Repaired != 0 || len(findings) != 2 || !findings[0].Recent {
			t.Errorf("a young object: %+v %+v", summary, findings)
		}
		if _, ok := d.stored()[key]; !ok {
			t.Error("a young object was removed")
		}
		d.clock.Advance(time.Hour)
		if summary, _ := d.check(consistency.Config{Repair: true, Grace: time.Hour}); summary.Repaired != 2 || len(d.stored()) != 0 {
			t.Errorf("later: %+v", summary)
		}
	})
}

// An adopted bucket can hold any objects; a check does not remove those of others.
func TestCheck_KeepsUnmanagedObjects(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		id := uuid.Must(uuid.NewV7())
		keys := []string{"a", "zebra/x", "media/photo.jpg", "media/" + strings.ToUpper(id.String()) + "x/original", "media/" + id.String() + "/a/b", "media/2020/original"}
		for _, key := range keys {
			d.put(key, random(3))
		}
		d.sealed(random(10), media.Fields{})
		d.clock.Advance(24 * time.Hour)
		summary, findings := d.check(consistency.Config{Repair: true})
		if len(findings) != 0 || summary.Unmanaged != int64(len(keys)) || summary.Objects != 1 {
			t.Errorf("%+v %+v", summary, findings)
		}
		for _, key := range keys {
			if _, err := d.objects.Stat(t.Context(), d.principal.Account.Bucket, key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

func TestCheck_RepairsNothingInForeignBucket(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		item := d.sealed(random(10), media.Fields{})
		thumbnail := d.withThumbnail(item, random(5))
		orphan := media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)
		d.put(orphan, random(3))
		d.remove(thumbnail.Key)
		d.clock.Advance(24 * time.Hour)
		before := maps.Clone(d.stored())

		d.remove(objectstore.MarkerKey)
		_, findings := d.check(consistency.Config{Repair: true})
		if got := kinds(findings); !slices.Equal(got, []string{"bucket-unmarked", "object-missing", "orphan-object"}) {
			t.Errorf("without a marker: %v", got)
		}
		d.put(objectstore.MarkerKey, []byte(`{"accountID":"`+uuid.NewString()+`"}`))
		summary, findings := d.check(consistency.Config{Repair: true})
		if got := kinds(findings); !slices.Equal(got, []string{"bucket-foreign"}) || summary.Objects != 0 {
			t.Errorf("with another's marker: %v, %+v", got, summary)
		}
		d.put(objectstore.MarkerKey, []byte(`broken`))
		if _, findings := d.check(consistency.Config{Repair: true}); !slices.Equal(kinds(findings), []string{"bucket-foreign"}) {
			t.Errorf("with a broken marker: %v", kinds(findings))
		}
		if after := d.stored(); !maps.Equal(before, after) {
			t.Errorf("the bucket was changed: %v, %v", before, after)
		}
		if got, err := d.Items.Get(t.Context(), d.principal, item.ID); err != nil || len(got.Objects) != 2 {
			t.Errorf("the row was changed: %+v, %v", got, err)
		}
		for key := range before {
			d.remove(key)
		}
		d.remove(objectstore.MarkerKey)
		must(t, d.raw.RemoveBucket(t.Context(), d.principal.Account.Bucket))
		if _, findings := d.check(consistency.Config{Repair: true}); !slices.Equal(kinds(findings), []string{"bucket-missing"}) {
			t.Errorf("without a bucket: %v", kinds(findings))
		}
	})
}

// A repair once removed what an adopted bucket held before.
func TestCheck_KeepsWhatAnAdoptedBucketHeld(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		old := media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)
		d.put(old, random(10))
		marker, err := d.objects.Marker(t.Context(), d.principal.Account.Bucket)
		must(t, err)
		marker.ClaimedAt = time.Now().Add(time.Hour)
		text, err := json.Marshal(marker)
		must(t, err)
		d.put(objectstore.MarkerKey, text)
		d.clock.Advance(48 * time.Hour)
		summary, findings := d.check(consistency.Config{Repair: true})
		if len(findings) != 0 || summary.Unmanaged != 1 || summary.Objects != 0 || summary.Bytes != 0 {
			t.Errorf("%+v %+v", summary, findings)
		}
		if stored := d.stored(); len(stored) != 1 {
			t.Errorf("the bucket holds %v", stored)
		}
	})
}
