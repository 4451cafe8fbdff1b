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

// In an update, replicas of the old version recorded presets as looked at, and items as done, of which the pictures of the new encoder
// were not made then.
func TestEager_TheNewestEncoderOfAnUpdateMakesAll(t *testing.T) {
	t.Parallel()
	const older, newer = media.EncoderVersion, media.EncoderVersion + 1
	all := processes(t, 2)
	old, next := all[0], all[1]
	for w, version := range map[*world]string{old: "v1.0.0", next: "v1.0.1"} {
		must(t, check.ErrorOf(w.Store.TouchRuntime(t.Context(), uuid.New(), version, time.Hour)))
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

	// The old process works on an item while the new one begins its pass, which finds the item in the queue.
	old.sealedBytes(t, one.Principal, photo(t, 64, 64))
	old.renderer.gate, old.renderer.started = make(chan struct{}), make(chan struct{}, 10)
	ended := make(chan error)
	go func() {
		_, err := before.Step(t.Context())
		ended <- err
	}()
	<-old.renderer.started
	settle(t, after)
	close(old.renderer.gate)
	must(t, <-ended)
	if n := old.made(t, first, older); n != 2 {
		t.Errorf("%d renditions of the old encoder", n)
	}
	made := old.renderer.jobs.Load()
	settle(t, before)
	settle(t, after)
	if n := next.made(t, first, newer); n != 2 || next.pending(t, one) != 0 {
		t.Errorf("%d renditions of the new encoder, %d items are pending", n, next.pending(t, one))
	}

	// From now on the old one leaves everything to the new one: items, changes and passes.
	old.sealedBytes(t, one.Principal, photo(t, 64, 64))
	settle(t, before)
	if old.queued(t, one) != 1 || old.renderer.jobs.Load() != made {
		t.Errorf("%d items are in the queue, %d jobs of the old process", old.queued(t, one), old.renderer.jobs.Load()-made)
	}
	settle(t, after)
	old.present(t, one, second)
	// A look that began before the new process had the account.
	change := rendition.EagerChange{AccountID: one.Account().ID, Version: old.QueryInt(t, `SELECT changed FROM rendition_eager`)}
	if seen, err := old.Store.SeeEager(t.Context(), change, []byte{1}, rendition.EagerEncoder{Own: older, Newest: older}); err != nil || seen {
		t.Errorf("the old process records what the new one has: %t, %v", seen, err)
	}
	settle(t, before)
	if n := old.pending(t, one); n != 3 || old.renderer.jobs.Load() != made {
		t.Errorf("%d items are pending, %d jobs of the old process", n, old.renderer.jobs.Load()-made)
	}
	settle(t, after)
	if first, second := next.made(t, first, newer), next.made(t, second, newer); first != 3 || second != 3 || next.pending(t, one) != 0 {
		t.Errorf("%d and %d renditions of the new encoder, %d items are pending", first, second, next.pending(t, one))
	}

	// Back to the old version: it goes on when no process of the new one is left.
	settle(t, before)
	if n := old.made(t, second, older); n != 0 {
		t.Errorf("%d renditions of the old encoder", n)
	}
	old.exec(t, `DELETE FROM runtime_instance WHERE version = 'v1.0.1'`)
	settle(t, before)
	if n := old.made(t, second, older); n != 3 || old.pending(t, one) != 0 {
		t.Errorf("%d renditions of the old encoder after the return to it, %d items are pending", n, old.pending(t, one))
	}
	old.balanced(t, one)
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
	for range 3 {
		must(t, check.ErrorOf(e.Step(t.Context())))
	}
	if n := w.ready(t, item); n != 1 {
		t.Errorf("%d renditions", n)
	}
}
