package rendition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// made returns how many renditions of an eager preset there are that a version of the encoder has made.
func (w *world) made(t *testing.T, preset settings.Preset, encoder int) int64 {
	t.Helper()
	id := media.RecipeOf(preset, 1, settings.FormatWebP, nil).ID(encoder)
	return w.QueryInt(t, `SELECT count(*) FROM rendition WHERE recipe_id = $1 AND ready`, id[:])
}

// leave is settle of a process that leaves what it finds to a newer encoder, or finds nothing.
func leave(t *testing.T, e *eagerRunner) {
	t.Helper()
	e.EndYield()
	if err := e.Drain(t.Context(), rendition.PictureWork); err != nil && !errors.Is(err, rendition.ErrYields) {
		t.Fatal(err)
	}
}

// In an update, replicas of the old version recorded presets as looked at, and items as done, of which the pictures of the new encoder
// were not made then.
func TestEager_TheNewestEncoderOfAnUpdateMakesAll(t *testing.T) {
	t.Parallel()
	const older, newer = media.EncoderVersion, media.EncoderVersion + 1
	all := processes(t, 2)
	old, next := all[0], all[1]
	for w, version := range map[*world]string{old: "v1.0.0", next: "v1.0.1"} {
		must(t, check.ErrorOf(w.Store.Installations.TouchRuntime(t.Context(), uuid.New(), version, time.Hour)))
	}
	before, after := old.eagerly(t, old.renderer, encoder(older)), next.eagerly(t, next.renderer, encoder(newer))
	one := old.tenant(t, 10<<20)
	first, second := eager("a", 20), eager("a", 30)
	old.present(t, one, first)
	settle(t, before)
	old.sealedBytes(t, one.Principal, photo(t, 64, 64))
	settle(t, before)
	if n := old.made(t, first, older); n != 1 {
		t.Fatalf("%d renditions before the update", n)
	}

	// The old process works on an item while the new one begins its pass, which finds the item.
	old.sealedBytes(t, one.Principal, photo(t, 64, 64))
	old.renderer.gate, old.renderer.started = make(chan struct{}), make(chan struct{}, 10)
	ended := make(chan error)
	go func() {
		ended <- before.step(t.Context())
	}()
	<-old.renderer.started
	settle(t, after)
	close(old.renderer.gate)
	must(t, <-ended)
	if n := old.made(t, first, older); n != 2 {
		t.Errorf("%d renditions of the old encoder", n)
	}
	made := old.renderer.jobs.Load()
	leave(t, before)
	settle(t, after)
	if n := next.made(t, first, newer); n != 2 || next.pending(t, one) != 0 {
		t.Errorf("%d renditions of the new encoder, %d items are pending", n, next.pending(t, one))
	}

	// From now on the old one leaves everything to the new one: items, changes and passes.
	old.sealedBytes(t, one.Principal, photo(t, 64, 64))
	leave(t, before)
	if old.queued(t, one) != 1 || old.renderer.jobs.Load() != made {
		t.Errorf("%d items are in the queue, %d jobs of the old process", old.queued(t, one), old.renderer.jobs.Load()-made)
	}
	settle(t, after)
	old.present(t, one, second)
	// A look that began before the new process had the account.
	seen := rendition.EagerAccount{ID: one.Account().ID, Version: old.QueryInt(t, `SELECT changed FROM rendition_eager`), Encoder: older}
	must(t, old.Store.Pictures.SeeEager(t.Context(), seen, []byte{1}, older))
	leave(t, before)
	if n := old.pending(t, one); n != 3 || old.renderer.jobs.Load() != made {
		t.Errorf("%d items are pending, %d jobs of the old process", n, old.renderer.jobs.Load()-made)
	}
	settle(t, after)
	if first, second := next.made(t, first, newer), next.made(t, second, newer); first != 3 || second != 3 || next.pending(t, one) != 0 {
		t.Errorf("%d and %d renditions of the new encoder, %d items are pending", first, second, next.pending(t, one))
	}

	// Back to the old version: it goes on when no process of the new one is left.
	leave(t, before)
	if n := old.made(t, second, older); n != 0 {
		t.Errorf("%d renditions of the old encoder", n)
	}
	old.exec(t, `DELETE FROM runtime_instance WHERE version = 'v1.0.1'`)
	before.EndYield()
	settle(t, before)
	if n := old.made(t, second, older); n != 3 || old.pending(t, one) != 0 {
		t.Errorf("%d renditions of the old encoder after the return to it, %d items are pending", n, old.pending(t, one))
	}
	old.balanced(t, one)
}

// A replica of the version before queues items in its own table, and goes on with those that it has claimed.
func TestEager_AdoptsWhatTheVersionBeforeHasQueued(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	var items []media.Item
	for range 4 {
		items = append(items, w.sealedBytes(t, one.Principal, photo(t, 64, 64)))
	}
	queued, claimed, dead, both := items[0], items[1], items[2], items[3]
	w.exec(t, `DELETE FROM work WHERE key <> $1`, both.ID)
	w.exec(t, `INSERT INTO rendition_queue (item_id, account_id, claim, due_at, attempts) SELECT id, account_id,
		CASE WHEN id IN ($2, $3) THEN gen_random_uuid() END, now() + CASE WHEN id = $2 THEN 1 ELSE 0 END * interval '1 hour', 1 FROM item WHERE id IN ($1, $2, $3)`, queued.ID, claimed.ID, dead.ID)
	// A process of this version works on an item when one of the version before queues it.
	w.renderer.gate, w.renderer.started = make(chan struct{}), make(chan struct{}, 10)
	ended := make(chan error)
	w.exec(t, `UPDATE work SET due_at = now() - interval '1 second'`)
	w.exec(t, `UPDATE rendition_queue SET claim = gen_random_uuid(), due_at = now() + interval '1 hour'`)
	go func() { ended <- e.step(t.Context()) }()
	<-w.renderer.started
	w.exec(t, `UPDATE rendition_queue SET due_at = now() WHERE item_id IN ($1, $2)`, queued.ID, dead.ID)
	w.exec(t, `UPDATE rendition_queue SET claim = NULL WHERE item_id = $1`, queued.ID)
	w.exec(t, `INSERT INTO rendition_queue (item_id, account_id) VALUES ($1, $2)`, both.ID, one.Account().ID)
	if n := w.pending(t, one); n != 5 {
		t.Errorf("%d items are pending", n)
	}
	must(t, check.ErrorOf(w.Store.Pictures.EnqueueEager(t.Context(), media.EncoderVersion)))
	w.Counts(t, 1, "items are left to the version before", `SELECT count(*) FROM rendition_queue`)
	w.Counts(t, 0, "claims", `SELECT count(*) FROM work WHERE claim IS NOT NULL`)
	close(w.renderer.gate)
	must(t, <-ended)
	if n := w.queued(t, one); n != 3 {
		t.Errorf("%d items are in the queue", n)
	}
	settle(t, e)
	if w.ready(t, queued) != 1 || w.ready(t, dead) != 1 || w.ready(t, both) != 1 || w.ready(t, claimed) != 0 || w.queued(t, one) != 0 || w.pending(t, one) != 1 {
		t.Errorf("%d, %d, %d and %d renditions, %d items are pending", w.ready(t, queued), w.ready(t, dead), w.ready(t, both), w.ready(t, claimed), w.pending(t, one))
	}
}

// A pass that the version before was stopped in has no task.
func TestEager_GoesOnWithAPassOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	w.exec(t, `DELETE FROM work`)
	w.exec(t, `UPDATE rendition_eager SET before_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'`)
	settle(t, e)
	if w.ready(t, item) != 1 || w.pending(t, one) != 0 {
		t.Errorf("%d renditions, %d items are pending", w.ready(t, item), w.pending(t, one))
	}
}

// What a process records about a pass changes nothing once another one has begun: it would end it.
func TestPassEager_KeepsANewerPass(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	id := one.Account().ID
	see := func(recipes byte, encoder int) rendition.EagerAccount {
		t.Helper()
		before, _, err := w.Store.Pictures.EagerAccount(t.Context(), id, encoder)
		must(t, err)
		must(t, w.Store.Pictures.SeeEager(t.Context(), before, []byte{recipes}, encoder))
		account, found, err := w.Store.Pictures.EagerAccount(t.Context(), id, encoder)
		must(t, err)
		if !found || account.Unseen || account.Before != uuid.Max {
			t.Fatalf("%+v", account)
		}
		return account
	}
	w.present(t, one, eager("a", 20))
	ended := func(when string, account rendition.EagerAccount) {
		t.Helper()
		if recorded, err := w.Store.Pictures.PassEager(t.Context(), account, uuid.Nil, 5); err != nil || recorded {
			t.Errorf("%s: %t, %v", when, recorded, err)
		}
	}
	first := see(1, 1)
	w.present(t, one, eager("a", 30))
	changed := see(2, 1)
	ended("the presets have changed", first)
	encoded := see(3, 2)
	ended("another encoder has the account", changed)
	if recorded, err := w.Store.Pictures.PassEager(t.Context(), encoded, uuid.UUID{1}, 5); err != nil || !recorded {
		t.Errorf("%t, %v", recorded, err)
	}
	ended("another process has gone on", encoded)
	if account, _, err := w.Store.Pictures.EagerAccount(t.Context(), id, 2); err != nil || account.Before != (uuid.UUID{1}) {
		t.Errorf("%+v, %v", account, err)
	}
}

// unreadable are the settings of accounts, of which some cannot be read.
type unreadable struct {
	rendition.Settings
	broken map[uuid.UUID]bool
}

// Get returns an error for a broken account.
func (u unreadable) Get(ctx context.Context, account uuid.UUID) (settings.Layers, error) {
	if u.broken[account] {
		return settings.Layers{}, errors.New("unreadable")
	}
	return u.Settings.Get(ctx, account)
}

// A hundred accounts whose presets cannot be read hid the changes of all others.
func TestEager_UnreadableSettingsHideNoOthers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	w.present(t, one, eager("a", 20))
	broken := map[uuid.UUID]bool{}
	ids := make([]string, 1001) // before the account, and more than one look reads
	for i := range ids {
		id := uuid.UUID{14: byte(i >> 8), 15: byte(i)}
		broken[id], ids[i] = true, id.String()
	}
	w.exec(t, `ALTER TABLE rendition_eager DROP CONSTRAINT rendition_eager_account_id_fkey`)
	w.exec(t, `INSERT INTO rendition_eager (account_id, active) SELECT unnest($1::uuid[]), true`, ids)
	e := w.eagerly(t, w.renderer, func(deps *eagerDeps) { deps.Settings = unreadable{w.Settings, broken} })
	settle(t, e)
	if n := w.ready(t, item); n != 1 {
		t.Errorf("%d renditions", n)
	}
}
