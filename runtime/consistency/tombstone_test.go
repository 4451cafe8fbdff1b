package consistency_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/media"
)

// undoable makes the deletes of the account undoable for a day.
func (d *fixture) undoable() {
	d.t.Helper()
	undo := account.Undo{Window: 24 * time.Hour, For: account.UndoEveryone}
	_, err := d.Registry.Ensure(d.t.Context(), account.Spec{Namespace: d.principal.Account.Namespace, Name: d.principal.Account.Name,
		MaxStorage: d.principal.Account.MaxStorage, MaxUploadSize: d.principal.Account.MaxUploadSize, Undo: undo})
	must(d.t, err)
	d.principal.Account.Undo = undo
}

// tombstone deletes a sealed item so that it can be restored.
func (d *fixture) tombstone(data []byte, fields media.Fields) media.Item {
	d.t.Helper()
	item := d.sealed(data, fields)
	d.deleteUndoably(item)
	return item
}

func (d *fixture) deleteUndoably(item media.Item) {
	d.t.Helper()
	until, err := d.Items.Delete(d.t.Context(), d.principal, item.ID, media.DeleteOptions{})
	must(d.t, err)
	if until == nil {
		d.t.Fatal("the delete cannot be undone")
	}
}

// removeEnded runs the purge, which removes the objects of what a repair ended.
func (d *fixture) removeEnded() {
	d.t.Helper()
	purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, MaxAttempts: 3, RemovalConfig: media.RemovalConfig{BatchSize: 50, MaxBackoff: time.Second}},
		media.PurgeDeps{Store: d.store.Items, Tasks: d.store.Tasks, Objects: d.objects, Guard: d.Guard(), Now: func() time.Time { return time.Now().Add(time.Minute) }, Log: slog.New(slog.DiscardHandler)})
	must(d.t, err)
	must(d.t, check.ErrorOf(purger.Run(d.t.Context())))
}

// rows returns all rows of the account that a check reads, as text.
func (d *fixture) rows() []string {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.Database.DatabaseURL)
	must(d.t, err)
	defer func() { _ = conn.Close(d.t.Context()) }()
	rows, err := conn.Query(d.t.Context(), `SELECT stored_item::text FROM stored_item WHERE account_id = $1
		UNION ALL SELECT account_usage::text FROM account_usage WHERE account_id = $1
		UNION ALL SELECT ROW(app_id, sum(public_items), sum(private_items), sum(bytes), sum(deleted_items), sum(deleted_bytes))::text FROM app_total WHERE account_id = $1 GROUP BY app_id
		UNION ALL SELECT ROW(app_id, group_label, sum(public_items), sum(private_items))::text FROM group_total WHERE app_id = $2 GROUP BY app_id, group_label
		UNION ALL SELECT object_removal::text FROM object_removal WHERE account_id = $1 ORDER BY 1`, d.principal.Account.ID, d.principal.App.ID)
	must(d.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(d.t, err)
	return found
}

// Each kind of drift around deleted items is named, and a repair corrects it and nothing else: rows and bucket are
// what they were before the damage, except where the test says so.
func TestCheck_NamesAndRepairsDriftOfDeletedItems(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, d *fixture) {
		for _, c := range []struct {
			name   string
			damage func(d *fixture, deleted media.Item, thumbnail media.Object)
			want   []string
			// attention is the number of findings that a repair leaves. ends: the repair removes what was damaged.
			attention int64
			ends      bool
		}{
			{name: "nothing", damage: func(*fixture, media.Item, media.Object) {}},
			{name: "a total that has an item too many", want: []string{"counter-drift"}, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`UPDATE app_total SET deleted_items = deleted_items + 1 WHERE app_id = $1 AND slot = 7`, deleted.AppID)
			}},
			{name: "a total that lacks bytes", want: []string{"counter-drift"}, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`UPDATE app_total SET deleted_bytes = deleted_bytes - 100 WHERE app_id = $1 AND slot = 7`, deleted.AppID)
			}},
			{name: "a deleted item that counts as sealed", want: []string{"counter-drift", "counter-drift", "counter-drift"}, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`UPDATE app_total SET private_items = private_items + 1, bytes = bytes + 570, deleted_items = deleted_items - 1, deleted_bytes = deleted_bytes - 570 WHERE app_id = $1 AND slot = 7`, deleted.AppID)
				d.sql(`INSERT INTO group_total (app_id, group_label, slot, private_items) VALUES ($1, 'g', 2, 1) ON CONFLICT (app_id, group_label, slot) DO UPDATE SET private_items = group_total.private_items + 1`, deleted.AppID)
			}},
			{name: "a usage without deleted items", want: []string{"counter-drift"}, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`UPDATE account_usage SET bytes = bytes - 570 WHERE account_id = $1`, deleted.AccountID)
			}},
			{name: "a row of the wrong bytes", want: []string{"counter-drift", "counter-drift", "item-bytes"}, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`UPDATE stored_item SET bytes = bytes + 5000 WHERE id = $1`, deleted.ID)
			}},
			{name: "a lost thumbnail", want: []string{"object-missing"}, ends: true, damage: func(d *fixture, _ media.Item, thumbnail media.Object) {
				d.remove(thumbnail.Key)
			}},
			{name: "a lost original", want: []string{"object-missing"}, attention: 1, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.remove(deleted.File().Key)
			}},
			{name: "an object that its row does not refer to", want: []string{"orphan-object"}, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.put(media.ObjectKey(deleted.ID, media.WebP), random(9))
			}},
			{name: "objects of an item whose row is gone", want: []string{"counter-drift", "counter-drift", "orphan-object", "orphan-object"}, ends: true, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`DELETE FROM stored_item WHERE id = $1`, deleted.ID)
			}},
			{name: "an item whose time was over for long", want: []string{"deleted-item-overdue"}, ends: true, damage: func(d *fixture, deleted media.Item, _ media.Object) {
				d.sql(`UPDATE stored_item SET deleted_at = deleted_at - interval '3 days', restorable_until = restorable_until - interval '3 days' WHERE id = $1`, deleted.ID)
			}},
		} {
			d := d.withAccount(t)
			d.undoable()
			kept := d.sealed(random(300), media.Fields{Group: "g"})
			neighbour := d.tombstone(random(200), media.Fields{Group: "g"})
			deleted := d.sealed(random(500), media.Fields{Group: "g"})
			thumbnail := d.withThumbnail(deleted, random(70))
			d.deleteUndoably(deleted)
			d.clock.Advance(2 * time.Hour)
			rows, stored := d.rows(), d.stored()
			c.damage(d, deleted, thumbnail)

			cfg := consistency.Config{Grace: time.Hour}
			summary, findings := d.check(cfg)
			if got := kinds(findings); !slices.Equal(got, c.want) || summary.NeedsAttention != int64(len(c.want)) || summary.Repaired != 0 {
				t.Errorf("%s: found %v, want %v; %+v", c.name, got, c.want, findings)
			}
			cfg.Repair = true
			if summary, findings = d.check(cfg); summary.NeedsAttention != c.attention {
				t.Errorf("%s: a repair left %d, want %d: %+v", c.name, summary.NeedsAttention, c.attention, findings)
			}
			if summary, findings = d.check(cfg); summary.Repaired != 0 || summary.NeedsAttention != c.attention {
				t.Errorf("%s: a second repair found %+v", c.name, findings)
			}
			if !c.ends && !slices.Equal(d.rows(), rows) {
				t.Errorf("%s: the repair changed rows: %v, want %v", c.name, d.rows(), rows)
			}
			d.othersStay(c.name, []uuid.UUID{kept.ID, neighbour.ID}, rows, stored)
			if c.attention == 0 {
				d.removeEnded()
				d.balanced()
			}
			// The deleted items that are left can be restored.
			if _, err := d.Items.Restore(t.Context(), d.principal, neighbour.ID); err != nil {
				t.Errorf("%s: another deleted item cannot be restored: %v", c.name, err)
			}
			if item, err := d.Items.Restore(t.Context(), d.principal, deleted.ID); err == nil && c.attention == 0 {
				if data := d.bytesOf(item.File()); !slices.Equal(data, random(500)) {
					t.Errorf("%s: the restored item has other bytes", c.name)
				}
				d.balanced()
			} else if err != nil && !c.ends {
				t.Errorf("%s: the deleted item cannot be restored: %v", c.name, err)
			}
		}
	})
}

// othersStay requires that the rows and the objects of these items are what they were.
func (d *fixture) othersStay(name string, ids []uuid.UUID, rows []string, stored map[string]int64) {
	d.t.Helper()
	now, nowStored := d.rows(), d.stored()
	for _, id := range ids {
		for _, row := range rows {
			if strings.Contains(row, id.String()) && !slices.Contains(now, row) {
				d.t.Errorf("%s: the row of another item was changed: %s", name, row)
			}
		}
		for key, size := range stored {
			if strings.Contains(key, id.String()) && nowStored[key] != size {
				d.t.Errorf("%s: an object of another item was changed: %s", name, key)
			}
		}
	}
}

// The time of a deleted item is a minimum: a check leaves it to the purge for a day.
func TestCheck_LeavesDeletedItemsToThePurgeForADay(t *testing.T) {
	t.Parallel()
	d := newFixture(t, testenv.S3(t))
	d.undoable()
	item := d.tombstone(random(10), media.Fields{})
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{0, 0}, {25 * time.Hour, 0}, {22 * time.Hour, 0}, {3 * time.Hour, 1}} {
		d.clock.Advance(step.by)
		if _, findings := d.check(consistency.Config{}); len(findings) != step.want {
			t.Errorf("%s later: %+v", step.by, findings)
		}
	}
	// A restore wins against a check that has found the item.
	must(t, check.ErrorOf(d.Items.Restore(t.Context(), d.principal, item.ID)))
	if ended, err := d.store.Consistency.EndOverdueItems(t.Context(), d.principal.Account.ID, []uuid.UUID{item.ID}, d.clock.Now()); err != nil || len(ended) != 0 {
		t.Errorf("%v, %v", ended, err)
	}
	if _, err := d.Items.Get(t.Context(), d.principal, item.ID); err != nil {
		t.Error(err)
	}
}
