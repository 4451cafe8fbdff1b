package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

// cdnEnv is an account in front of whose files a CDN is.
type cdnEnv struct {
	*testing.T
	store *postgres.Store
	url   string
	scope media.Scope
}

func newCDNEnv(t *testing.T) *cdnEnv {
	t.Helper()
	store, url := setup(t)
	e := &cdnEnv{t, store, url, provisioned(t, store)}
	must(t, check.ErrorOf(store.CDN.KeepPurger(t.Context())))
	must(t, touch(t, store, uuid.New(), "test"))
	return e
}

// queued returns what has been queued since the last call: item, account, or the name of a preset.
func (e *cdnEnv) queued() string {
	e.Helper()
	due, err := e.store.CDN.DueCDNPurges(e.Context(), 1000)
	must(e.T, err)
	var names []string
	for _, p := range due {
		switch {
		case p.ItemID != uuid.Nil:
			names = append(names, "item")
		case p.Preset != "":
			names = append(names, p.Preset)
		default:
			names = append(names, "account")
		}
		if p.AccountID != e.scope.AccountID {
			e.Errorf("a purge is of account %s", p.AccountID)
		}
	}
	exec(e.T, e.url, `DELETE FROM cdn_purge`)
	slices.Sort(names)
	return strings.Join(names, " ")
}

// sealed returns a sealed item.
func (e *cdnEnv) sealed(access media.Access) media.Item {
	e.Helper()
	item := commitDraft(e.T, e.store, e.scope, func(item *media.Item) { item.Access = access })
	sealed, err := e.store.Items.Seal(e.Context(), e.scope, item.ID, time.Now())
	must(e.T, err)
	return sealed
}

func (e *cdnEnv) update(id uuid.UUID, change func(*media.Item)) {
	e.Helper()
	must(e.T, check.ErrorOf(e.store.Items.UpdateItem(e.Context(), e.scope, id, func(item media.Item, _ bool) (media.Item, bool, error) {
		change(&item)
		return item, true, nil
	})))
}

func TestCDN_EveryChangeOfAPublicFileIsPurged(t *testing.T) {
	t.Parallel()
	e := newCDNEnv(t)
	undoably := func(id uuid.UUID) {
		window := func() media.UndoWindow { return media.UndoWindow{From: time.Now(), Until: time.Now().Add(time.Hour)} }
		must(t, check.ErrorOf(e.store.Items.DeleteItemUndoably(t.Context(), e.scope, id, window(), time.Now())))
	}
	for name, c := range map[string]struct {
		change  func(media.Item)
		public  string
		private string
	}{
		"nothing": {func(media.Item) {}, "", ""},
		"a delete": {func(item media.Item) {
			must(t, check.ErrorOf(e.store.Items.DeleteItem(t.Context(), e.scope, item.ID, time.Now())))
		}, "item", ""},
		"a delete that can be undone": {func(item media.Item) { undoably(item.ID) }, "item", ""},
		"the end of a deleted item": {func(item media.Item) {
			undoably(item.ID)
			_ = e.queued()
			must(t, check.ErrorOf(e.store.Items.DeleteItemPermanently(t.Context(), e.scope, item.ID, time.Now())))
		}, "", ""},
		"a restored item": {func(item media.Item) {
			undoably(item.ID)
			_ = e.queued()
			_, _, err := e.store.Items.RestoreItem(t.Context(), e.scope, item.ID)
			must(t, err)
		}, "", ""},
		"made private": {func(item media.Item) { e.update(item.ID, func(i *media.Item) { i.Access = media.Private }) }, "item", ""},
		"made public":  {func(item media.Item) { e.update(item.ID, func(i *media.Item) { i.Access = media.Public }) }, "", ""},
		"another name": {func(item media.Item) { e.update(item.ID, func(i *media.Item) { i.FileName = "other.png" }) }, "item", ""},
		"another focus": {func(item media.Item) {
			e.update(item.ID, func(i *media.Item) { i.Focus = &media.FocusPoint{X: 1, Y: 2} })
		}, "item", ""},
		"another caption": {func(item media.Item) { e.update(item.ID, func(i *media.Item) { i.Caption, i.Group = "new", "other" }) }, "", ""},
		"another metadata": {func(item media.Item) {
			e.update(item.ID, func(i *media.Item) { i.Metadata = media.Metadata{"a": "b"} })
		}, "", ""},
		"a finished conversion": {func(item media.Item) {
			exec(t, e.url, `UPDATE stored_item SET derivatives_state = 1 WHERE id = $1`, item.ID)
			writer, err := e.store.Uploads.RegisterWriter(t.Context(), e.scope.AccountID, e.scope.Bucket, uuid.New())
			must(t, err)
			must(t, e.store.Uploads.FinishDerivatives(t.Context(), upload.MadeDerivatives{AccountID: e.scope.AccountID, ItemID: item.ID, Writer: writer,
				Objects: media.Objects{{Variant: media.Thumbnail, Key: "t", Bytes: 1}, {Variant: media.WebP, Key: "w", Bytes: 1}}}))
		}, "item", ""},
	} {
		for access, want := range map[media.Access]string{media.Public: c.public, media.Private: c.private} {
			t.Run(name+" of a "+string(access)+" item", func(t *testing.T) {
				item := e.sealed(access)
				if got := e.queued(); got != "" {
					t.Errorf("an upload and its seal queue %q", got)
				}
				c.change(item)
				if got := e.queued(); got != want {
					t.Errorf("it queues %q, want %q", got, want)
				}
			})
		}
	}
	t.Run("a draft", func(t *testing.T) {
		draft := commitDraft(t, e.store, e.scope, func(item *media.Item) { item.Access = media.Public })
		e.update(draft.ID, func(i *media.Item) { i.Access = media.Private })
		must(t, check.ErrorOf(e.store.Items.DeleteItem(t.Context(), e.scope, draft.ID, time.Now())))
		if got := e.queued(); got != "" {
			t.Errorf("it queues %q", got)
		}
	})
}

func TestCDN_ChangesOfAnAccountArePurged(t *testing.T) {
	t.Parallel()
	e := newCDNEnv(t)
	pin := func(fields string) {
		exec(t, e.url, `INSERT INTO settings_pin (account_id, pinned_by, object_uid, fields) VALUES ($1, 'a/b', 'uid', $2)
			ON CONFLICT (account_id) DO UPDATE SET fields = excluded.fields`, e.scope.AccountID, fields)
	}
	tenant := func(fields string) {
		exec(t, e.url, `INSERT INTO settings_tenant (account_id, fields) VALUES ($1, $2) ON CONFLICT (account_id) DO UPDATE SET fields = excluded.fields`, e.scope.AccountID, fields)
	}
	const presets = `{"presets": [{"name": "hero", "width": 100}, {"name": "card", "width": 10}], "useWebP": true}`
	for _, c := range []struct {
		name   string
		change func()
		want   string
	}{
		{"presets", func() { tenant(presets) }, "card hero"},
		{"the same presets", func() { tenant(presets) }, ""},
		{"a setting of uploads", func() { tenant(strings.Replace(presets, "true", "false", 1)) }, ""},
		{"one changed and one removed preset", func() { tenant(`{"presets": [{"name": "hero", "width": 200}]}`) }, "card hero"},
		{"originals that are signed", func() { tenant(`{"presets": [{"name": "hero", "width": 200}], "originals": "Signed"}`) }, "account"},
		{"a pinned preset", func() { pin(`{"presets": [{"name": "hero", "width": 300}]}`) }, "hero"},
		{"the end of the pins", func() { exec(t, e.url, `DELETE FROM settings_pin`) }, "hero"},
		{"a suspension", func() { exec(t, e.url, `UPDATE account SET suspended = true`) }, "account"},
		{"the end of a suspension", func() { exec(t, e.url, `UPDATE account SET suspended = false`) }, ""},
		{"an account that is closed", func() { closeAccount(t, registry(e.store), e.scope.AccountID) }, "account"},
	} {
		c.change()
		if got := e.queued(); got != c.want {
			t.Errorf("%s: it queues %q, want %q", c.name, got, c.want)
		}
	}
}

// The public files of a closed account were purged when it was closed: its erasure queues nothing for each item.
func TestCDN_ItemsOfAClosedAccountAreNotPurgedOneByOne(t *testing.T) {
	t.Parallel()
	e := newCDNEnv(t)
	e.sealed(media.Public)
	closeAccount(t, registry(e.store), e.scope.AccountID)
	if got := e.queued(); got != "account" {
		t.Errorf("it queues %q", got)
	}
	exec(t, e.url, `DELETE FROM stored_item`)
	if got := e.queued(); got != "" {
		t.Errorf("the erasure queues %q", got)
	}
}

func TestCDN_NothingIsQueuedWithoutAPurger(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	e := &cdnEnv{t, store, url, provisioned(t, store)}
	must(t, touch(t, store, uuid.New(), "test"))
	item := e.sealed(media.Public)
	e.update(item.ID, func(i *media.Item) { i.Access = media.Private })
	exec(t, url, `INSERT INTO settings_tenant (account_id, fields) VALUES ($1, '{"presets": [{"name": "hero"}]}')`, e.scope.AccountID)
	exec(t, url, `UPDATE account SET suspended = true`)
	counts(t, url, 0, "purges", `SELECT count(*) FROM cdn_purge`)
}

func TestCDN_PurgesAreSentTwice(t *testing.T) {
	t.Parallel()
	e := newCDNEnv(t)
	must(t, check.ErrorOf(e.store.Items.DeleteItem(t.Context(), e.scope, e.sealed(media.Public).ID, time.Now())))
	counted := func(name string, wantDue int, wantWaiting int64) []cdn.Purge {
		t.Helper()
		due, err := e.store.CDN.DueCDNPurges(t.Context(), 10)
		must(t, err)
		waiting, _, err := e.store.CDN.WaitingCDNPurges(t.Context())
		if must(t, err); len(due) != wantDue || waiting != wantWaiting {
			t.Errorf("%s: %d are due and %d wait, want %d and %d", name, len(due), waiting, wantDue, wantWaiting)
		}
		return due
	}
	first := counted("queued", 1, 1)
	for want := range 2 {
		added, err := e.store.CDN.EnqueueCDNPurges(t.Context(), time.Minute)
		if must(t, err); added != 1-want {
			t.Errorf("%d tasks are added", added)
		}
	}
	must(t, e.store.CDN.CDNPurgesSent(t.Context(), first, time.Hour))
	counted("sent once", 0, 0)
	must(t, e.store.CDN.CDNPurgesSent(t.Context(), first, 2*time.Hour)) // by another process, which has read it before that
	counts(t, e.url, 1, "purges that are due again in an hour", `SELECT count(*) FROM cdn_purge WHERE due_at BETWEEN now() AND now() + interval '1 hour'`)
	exec(t, e.url, `DELETE FROM work`)
	if added, err := e.store.CDN.EnqueueCDNPurges(t.Context(), time.Minute); err != nil || added != 0 {
		t.Error("a task is added although nothing is due", err)
	}
	exec(t, e.url, `UPDATE cdn_purge SET due_at = now()`)
	again := counted("due again", 1, 0)
	must(t, e.store.CDN.CDNPurgesSent(t.Context(), again, time.Hour))
	counts(t, e.url, 0, "purges", `SELECT count(*) FROM cdn_purge`)
}

// A process that dies while it sends holds its task for as long as its lease: others do not wait for that.
func TestCDN_AnotherTaskIsAddedWhileOneIsStalled(t *testing.T) {
	t.Parallel()
	e := newCDNEnv(t)
	exec(t, e.url, `INSERT INTO cdn_purge (account_id) VALUES ($1)`, e.scope.AccountID)
	added := func(name string, want int) {
		t.Helper()
		got, err := e.store.CDN.EnqueueCDNPurges(t.Context(), time.Minute)
		if must(t, err); got != want {
			t.Errorf("%s: %d tasks are added, want %d", name, got, want)
		}
	}
	claim := func(ends string) {
		exec(t, e.url, `UPDATE work SET claim = gen_random_uuid(), due_at = now() + $1::interval`, ends)
	}
	added("no task", 1)
	added("a task that waits", 0)
	claim("80 seconds")
	added("a task that was claimed just now", 0)
	claim("50 seconds")
	added("a stalled task", 1)
	added("a stalled task, and one that waits", 0)
	claim("50 seconds")
	added("two stalled tasks", 1)
	for range 7 {
		claim("50 seconds")
		added("some stalled tasks", 1)
	}
	claim("50 seconds")
	added("ten stalled tasks", 0)
	exec(t, e.url, `DELETE FROM work WHERE key = '00000000-0000-0000-0000-000000000000'`)
	added("stalled tasks, of which the first one is done", 1)
}

// What is queued ends a day after the last purger, and not before: a service that is scaled to zero for an hour purges what was changed meanwhile.
func TestCDN_TheQueueEndsADayAfterThePurger(t *testing.T) {
	t.Parallel()
	e := newCDNEnv(t)
	forget := func() int {
		must(t, e.store.CDN.ForgetPurger(t.Context()))
		removed, err := e.store.CDN.ForgetPurges(t.Context(), 10)
		must(t, err)
		return removed
	}
	exec(t, e.url, `INSERT INTO cdn_purge (account_id) VALUES ($1)`, e.scope.AccountID)
	exec(t, e.url, `UPDATE cdn_purger SET seen_at = now() - interval '23 hours'`)
	if removed := forget(); removed != 0 {
		t.Errorf("%d purges are removed", removed)
	}
	id, err := e.store.CDN.KeepPurger(t.Context())
	must(t, err)
	if want := (uuid.UUID{}); id == want {
		t.Error("no id of the installation")
	}
	counts(t, e.url, 1, "purgers", `SELECT count(*) FROM cdn_purger WHERE seen_at > now() - interval '1 minute'`)
	exec(t, e.url, `UPDATE cdn_purger SET seen_at = now() - interval '25 hours'`)
	if removed := forget(); removed != 1 {
		t.Errorf("%d purges are removed, want 1", removed)
	}
	counts(t, e.url, 0, "purgers", `SELECT count(*) FROM cdn_purger`)
}
