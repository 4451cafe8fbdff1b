package consistency_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/upload"
)

func TestCheck_FindsNothingInConsistentAccount(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		d.draft(random(10), media.Fields{})
		d.draft(nil, media.Fields{})
		d.sealed(random(upload.PartSize+5), media.Fields{Group: "g", Access: media.Public})
		d.withThumbnail(d.sealed(random(30), media.Fields{}), random(7))
		// An upload that is sending its parts, as another replica may run it.
		u, err := d.Uploads.Begin(t.Context(), d.principal, 0)
		must(t, err)
		reader, writer := io.Pipe()
		received := make(chan error, 1)
		go func() { received <- u.Receive(t.Context(), reader, "") }()
		_, err = writer.Write(make([]byte, 2*upload.PartSize+10))
		must(t, err)
		// An upload that was abandoned after its bytes, and a removal that is still queued.
		died, deleted := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
		d.put(media.ObjectKey(died, media.WebP), random(3))
		d.startMultipart(media.ObjectKey(died, media.Original))
		d.sql(`INSERT INTO upload (item_id, account_id, app_id, lease_ends) VALUES ($1, $2, $3, now() - interval '1 year')`, died, d.principal.Account.ID, d.principal.App.ID)
		d.put(media.ObjectKey(deleted, media.Original), random(3))
		d.startMultipart(media.ObjectKey(deleted, media.Original))
		d.sql(`INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before) VALUES ($1, $2, ARRAY[$3], true, now())`, d.principal.Account.ID, d.principal.Account.Bucket, media.ObjectKey(deleted, media.Original))
		for _, repair := range []bool{false, true} {
			summary, findings := d.check(consistency.Config{Repair: repair, Deep: true})
			if len(findings) > 0 || summary.Items != 4 || summary.Objects != 7 || summary.Uploads != 2 || summary.Removals != 1 {
				t.Errorf("repair %v: %+v, %+v", repair, summary, findings)
			}
		}
		must(t, writer.Close())
		must(t, <-received)
		item, err := u.Commit(t.Context(), media.Fields{})
		must(t, err)
		u.Close(t.Context())
		if summary, findings := d.check(consistency.Config{Deep: true}); len(findings) > 0 || summary.Items != 5 || item.Objects.Bytes() != 2*upload.PartSize+10 {
			t.Errorf("afterwards: %+v, %+v", summary, findings)
		}
	})
}

// Every kind of damage is found, and repaired or left to an operator; a second repair finds
// nothing that can be repaired.
func TestCheck_ReportsAndRepairsEveryKind(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		free := uuid.Must(uuid.NewV7())
		for _, c := range []struct {
			name   string
			damage func(t *testing.T, d *fixture, item media.Item, thumbnail media.Object)
			want   []string
			// attention is the number of findings that a repair leaves.
			attention int64
			deep      bool
		}{
			{name: "nothing", damage: func(*testing.T, *fixture, media.Item, media.Object) {}},
			{name: "an object of no item", want: []string{"orphan-object"}, damage: func(_ *testing.T, d *fixture, _ media.Item, _ media.Object) {
				d.put(media.ObjectKey(free, media.Original), random(9))
			}},
			{name: "an object that its item does not refer to", want: []string{"orphan-object"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.put(media.ObjectKey(item.ID, media.WebP), random(9))
			}},
			{name: "a multipart upload of no item", want: []string{"orphan-multipart-upload"}, damage: func(_ *testing.T, d *fixture, _ media.Item, _ media.Object) {
				d.startMultipart(media.ObjectKey(free, media.Original))
				d.startMultipart(media.ObjectKey(free, media.Original))
			}},
			{name: "a multipart upload of a complete item", want: []string{"orphan-multipart-upload"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.startMultipart(item.File().Key)
			}},
			{name: "a lost thumbnail", want: []string{"object-missing"}, damage: func(_ *testing.T, d *fixture, _ media.Item, thumbnail media.Object) {
				d.remove(thumbnail.Key)
			}},
			{name: "a thumbnail of the wrong size", want: []string{"object-size"}, damage: func(_ *testing.T, d *fixture, _ media.Item, thumbnail media.Object) {
				d.put(thumbnail.Key, random(99))
			}},
			{name: "a thumbnail of the wrong bytes", want: []string{"object-hash"}, deep: true, damage: func(_ *testing.T, d *fixture, _ media.Item, thumbnail media.Object) {
				d.put(thumbnail.Key, make([]byte, thumbnail.Bytes))
			}},
			{name: "wrong bytes that only a deep check finds", damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.put(item.File().Key, make([]byte, item.File().Bytes))
			}},
			{name: "a lost original", want: []string{"object-missing"}, attention: 1, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.remove(item.File().Key)
			}},
			{name: "an original of the wrong size", want: []string{"object-size"}, attention: 1, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.put(item.File().Key, random(1))
			}},
			{name: "an original of the wrong bytes", want: []string{"object-hash"}, attention: 1, deep: true, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.put(item.File().Key, make([]byte, item.File().Bytes))
			}},
			{name: "a total that is too small", want: []string{"counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`UPDATE app_total SET private_items = private_items - 3, bytes = bytes - 100 WHERE app_id = $1 AND slot = 5`, item.AppID)
			}},
			{name: "missing totals", want: []string{"counter-drift", "counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`DELETE FROM app_total WHERE app_id = $1`, item.AppID)
				d.sql(`DELETE FROM group_total WHERE app_id = $1`, item.AppID)
			}},
			{name: "renditions", damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) { d.withRendition(item, true) }},
			{name: "a lost rendition", want: []string{"object-missing"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.remove(d.withRendition(item, true))
			}},
			{name: "a rendition of the wrong bytes", want: []string{"object-hash"}, deep: true, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.put(d.withRendition(item, true), make([]byte, 300))
			}},
			{name: "a rendition that is being made", damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.withRendition(item, false)
			}},
			{name: "a rendition without a row", want: []string{"orphan-object"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.put(rendition.ObjectKey(item.ID, free), random(9))
			}},
			{name: "wrong totals of renditions", want: []string{"counter-drift", "counter-drift", "counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.withRendition(item, true)
				d.sql(`UPDATE account_usage SET bytes = bytes + 7, rendition_bytes = rendition_bytes + 9 WHERE account_id = $1`, item.AccountID)
				d.sql(`UPDATE rendition_total SET items = items + 2, bytes = bytes - 1 WHERE account_id = $1`, item.AccountID)
			}},
			{name: "an empty group", want: []string{"counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO group_total (app_id, group_label, slot, public_items) VALUES ($1, 'ghosts', 2, 4)`, item.AppID)
			}},
			{name: "a wrong pagination index", want: []string{"counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO item_page_block (app_id, group_label, first_id, items, public_items) VALUES ($1, '', '00000000-0000-0000-0000-000000000000', 5, 1)`, item.AppID)
			}},
			{name: "a wrong pagination index of a group", want: []string{"counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO item_page_block (app_id, group_label, first_id, items, public_items) VALUES ($1, 'g', '00000000-0000-0000-0000-000000000000', 5, 1)`, item.AppID)
			}},
			{name: "an empty block", want: []string{"counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO item_page_block (app_id, group_label, first_id, items, public_items) VALUES ($1, '', 'ffffffff-ffff-ffff-ffff-000000000000', 3, 1)`, item.AppID)
			}},
			{name: "a usage that is too large", want: []string{"counter-drift"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`UPDATE account_usage SET bytes = bytes + 1000 WHERE account_id = $1`, item.AccountID)
			}},
			{name: "a usage that is too small, and a lost thumbnail", want: []string{"counter-drift", "object-missing"}, damage: func(_ *testing.T, d *fixture, item media.Item, thumbnail media.Object) {
				d.sql(`UPDATE account_usage SET bytes = 0 WHERE account_id = $1`, item.AccountID)
				d.remove(thumbnail.Key)
			}},
			{name: "an item of the wrong bytes", want: []string{"counter-drift", "counter-drift", "item-bytes"}, damage: func(_ *testing.T, d *fixture, item media.Item, _ media.Object) {
				d.sql(`UPDATE item SET bytes = bytes + 5000 WHERE id = $1`, item.ID)
			}},
		} {
			d := d.withAccount(t)
			d.clock.Advance(2 * time.Hour)
			item := d.sealed(random(500), media.Fields{Group: "g"})
			thumbnail := d.withThumbnail(item, random(70))
			neighbour := d.draft(random(40), media.Fields{})
			c.damage(t, d, item, thumbnail)
			cfg := consistency.Config{Deep: c.deep, Grace: time.Hour}
			summary, findings := d.check(cfg)
			if got := kinds(findings); !slices.Equal(got, c.want) || summary.NeedsAttention != int64(len(c.want)) || summary.Repaired != 0 {
				t.Errorf("%s: found %v, want %v; %+v", c.name, got, c.want, findings)
			}
			cfg.Repair = true
			summary, findings = d.check(cfg)
			// Repairing an item's bytes repairs a counter that differed only from them.
			if got := kinds(findings); c.name != "an item of the wrong bytes" && !slices.Equal(got, c.want) || summary.NeedsAttention != c.attention {
				t.Errorf("%s: a repair found %v and left %d, want %v and %d", c.name, got, summary.NeedsAttention, c.want, c.attention)
			}
			summary, findings = d.check(cfg)
			if summary.Repaired != 0 || summary.NeedsAttention != c.attention {
				t.Errorf("%s: a second repair found %+v", c.name, findings)
			}
			if c.attention == 0 {
				d.balanced()
			}
			for _, id := range []uuid.UUID{item.ID, neighbour.ID} {
				if _, err := d.Items.Get(t.Context(), d.principal, id); err != nil {
					t.Errorf("%s: an item is gone: %v", c.name, err)
				}
			}
			must(t, deleteItem(t.Context(), d.Items, d.principal, item.ID))
			d.removeQueued() // the renditions of the item
			if c.attention == 0 {
				d.balanced()
			}
		}
	})
}

// Many pages of rows and of objects, with gaps in both.
func TestCheck_ComparesLargeAccountInPages(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		const items = 2600
		bucket := d.principal.Account.Bucket
		d.sql(`WITH made AS (
			INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at)
			SELECT id, $1, $2, 'f', 'public', '', 'g' || n % 7,
				jsonb_build_array(jsonb_build_object('variant', 'original', 'key', 'media/' || id || '/original', 'bytes', 1, 'mimeType', 'text/plain', 'sha256', '')), 1, now(), now()
			FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $3::int) AS n) AS ids RETURNING 1)
			UPDATE account_usage SET bytes = bytes + $3 WHERE account_id = $1`, d.principal.Account.ID, d.principal.App.ID, items)
		if summary, _ := d.check(consistency.Config{Repair: true}); summary.Found["counter-drift"] != 8 || summary.Found["object-missing"] != items {
			t.Errorf("an empty bucket: %+v", summary)
		}
		conn, err := pgx.Connect(t.Context(), d.Database.DatabaseURL)
		must(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		rows, err := conn.Query(t.Context(), `SELECT id FROM item WHERE account_id = $1 ORDER BY id`, d.principal.Account.ID)
		must(t, err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		must(t, err)
		work := make(chan string)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for key := range work {
					if _, err := d.raw.Client.PutObject(t.Context(), bucket, key, strings.NewReader("x"), 1, minio.PutObjectOptions{DisableContentSha256: true}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		lost, orphans := 0, 0
		for i, id := range ids {
			switch {
			case i%100 == 50, i == len(ids)-1, i == 0:
				lost++
				continue
			case i%130 == 7:
				orphans++
				work <- media.ObjectKey(uuid.New(), media.Original)
			}
			work <- media.ObjectKey(id, media.Original)
		}
		close(work)
		all.Wait()
		summary, _ := d.check(consistency.Config{})
		if summary.Items != items || summary.Objects != int64(items-lost+orphans) || summary.Found["object-missing"] != int64(lost) || summary.Found["orphan-object"] != int64(orphans) {
			t.Errorf("%d lost, %d orphans: %+v", lost, orphans, summary)
		}
		summary, _ = d.check(consistency.Config{Repair: true})
		if summary.Repaired != int64(orphans) || summary.NeedsAttention != int64(lost) {
			t.Errorf("repaired: %+v", summary)
		}
		if summary, _ = d.check(consistency.Config{Repair: true}); summary.Repaired != 0 || summary.NeedsAttention != int64(lost) {
			t.Errorf("repaired again: %+v", summary)
		}
	})
}
