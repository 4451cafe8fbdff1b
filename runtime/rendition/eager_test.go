package rendition_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
)

// eagerDeps are the dependencies of an Eager, its Maker and its tasks.
type eagerDeps struct {
	rendition.MakerDeps
	rendition.EagerDeps
	Tasks work.Store
}

// eagerRunner makes the renditions of eager presets in a process.
type eagerRunner struct {
	*rendition.Eager
	*work.Runner
	// looks is how often tasks may still be claimed or added; below 0 = any number.
	looks atomic.Int64
}

var errStepped = errors.New("the step has ended")

// eagerly returns what makes the renditions of eager presets in a process. It does not wait between two items.
func (w *world) eagerly(t *testing.T, renderer media.Renderer, change ...func(*eagerDeps)) *eagerRunner {
	t.Helper()
	w.registry = prometheus.NewRegistry()
	deps := eagerDeps{w.makerDeps(renderer), rendition.EagerDeps{Store: w.Store.Pictures, Settings: w.Settings, Registry: w.registry, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}, w.Store.Tasks}
	for _, apply := range change {
		apply(&deps)
	}
	made, err := rendition.NewEager(rendition.EagerConfig{EagerRate: 1000}, w.maker(t, deps.MakerDeps), deps.EagerDeps)
	must(t, err)
	made.SetClaimWait(10 * time.Minute)
	runner, err := work.NewRunner(work.Deps{Store: deps.Tasks, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	e := &eagerRunner{Eager: made, Runner: runner}
	e.looks.Store(-1)
	policy := made.Policy()
	ready := policy.Ready
	policy.Ready = func() error {
		if e.looks.Load() == 0 {
			return errStepped
		}
		e.looks.Add(-1)
		return ready()
	}
	must(t, runner.Register(rendition.PictureWork, made, policy))
	return e
}

// step does the next tasks: as many as a process does at once.
func (e *eagerRunner) step(ctx context.Context) error {
	e.looks.Store(2) // to add tasks, and to claim some
	defer e.looks.Store(-1)
	if err := e.Drain(ctx, rendition.PictureWork); !errors.Is(err, errStepped) {
		return err
	}
	return nil
}

// encoder makes an Eager that of a version of the encoder.
func encoder(version int) func(*eagerDeps) {
	return func(deps *eagerDeps) { deps.Encoder = version }
}

// eager returns a preset whose pictures are made in advance.
func eager(name string, width int, densities ...int) settings.Preset {
	return settings.Preset{Name: name, Width: width, Format: settings.FormatWebP, Densities: densities, Eager: true}
}

// present sets the tenant's presets.
func (w *world) present(t *testing.T, of tenant, presets ...settings.Preset) {
	t.Helper()
	must(t, check.ErrorOf(w.Settings.Update(t.Context(), of.Account().ID, account.Actor{}, settings.Layer{Pictures: settings.Pictures{Presets: &presets}})))
}

// settle does tasks until none is due.
func settle(t *testing.T, e *eagerRunner) {
	t.Helper()
	must(t, e.Drain(t.Context(), rendition.PictureWork))
}

// queued returns how many items of an account are in the queue.
func (w *world) queued(t *testing.T, of tenant) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'picture' AND account_id = $1 AND key <> account_id`, of.Account().ID)
}

// makeDue makes all tasks due, and ends the rests of accounts and the claims.
func (w *world) makeDue(t *testing.T) {
	t.Helper()
	w.exec(t, `UPDATE work SET due_at = now()`)
	w.exec(t, `UPDATE work_turn SET not_before = 'epoch'`)
}

// ready returns how many renditions an item has.
func (w *world) ready(t *testing.T, item media.Item) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT count(*) FROM rendition WHERE item_id = $1 AND ready`, item.ID)
}

func (w *world) pending(t *testing.T, of tenant) int64 {
	t.Helper()
	n, err := w.Store.Pictures.EagerPending(t.Context(), of.Account().ID)
	must(t, err)
	return n
}

func TestEager_MakesThePicturesOfASealedItem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	hero := settings.Preset{Name: "hero", Width: 40, Densities: []int{1, 2}, Eager: true}
	w.present(t, one, hero, eager("card", 20), settings.Preset{Name: "lazy", Width: 30}, eager("same", 20))
	e := w.eagerly(t, w.renderer)
	draft, err := w.uploadBytes(t.Context(), one.Principal, photo(t, 64, 64))
	must(t, err)
	w.sealed(t, one.Principal, 500) // no image
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	if n := w.queued(t, one); n != 1 {
		t.Errorf("%d items are in the queue", n)
	}
	if n := w.pending(t, one); n == 0 {
		t.Error("nothing is pending")
	}
	settle(t, e)
	if n := w.ready(t, item); n != 3 || w.renderer.jobs.Load() != 1 {
		t.Errorf("%d renditions by %d jobs", n, w.renderer.jobs.Load())
	}
	if w.queued(t, one) != 0 || w.pending(t, one) != 0 || w.rows(t, one) != 3 {
		t.Errorf("%d in the queue, %d pending, %d renditions", w.queued(t, one), w.pending(t, one), w.rows(t, one))
	}
	if made, done := w.metric(t, "mediastack_rendition_eager_made_total"), w.metric(t, "mediastack_rendition_eager_items_total", "done"); made != 3 || done < 1 {
		t.Errorf("metrics: %v made, %v items", made, done)
	}
	// A request gets them without a job: as AVIF, which current browsers negotiate.
	w.service = w.newService(t, w.renderer)
	for _, recipe := range []media.Recipe{media.RecipeOf(hero, 1, settings.FormatAVIF, nil), media.RecipeOf(hero, 2, settings.FormatAVIF, nil), media.RecipeOf(eager("card", 20), 1, settings.FormatWebP, nil)} {
		if result := w.get(t, one, item, rendition.Request{Preset: "hero", Recipe: recipe}); !result.Stored() || result.Data != nil {
			t.Errorf("%+v", result)
		}
	}
	jobs(t, 0, w)
	must(t, check.ErrorOf(w.core.Media.Seal(t.Context(), one.Principal, draft.ID)))
	settle(t, e)
	if n := w.ready(t, draft); n != 3 {
		t.Errorf("%d renditions of the draft that was sealed", n)
	}
	w.balanced(t, one)
}

func TestEager_CostsNothingWithoutEagerPresets(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one, other := w.tenant(t, 10<<20), w.tenant(t, 10<<20)
	w.present(t, one, settings.Preset{Name: "lazy", Width: 30})
	w.present(t, other, eager("a", 30))
	w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	w.Counts(t, 0, "rows", `SELECT (SELECT count(*) FROM work WHERE kind = 'picture' AND account_id = $1) + (SELECT count(*) FROM rendition_eager WHERE account_id = $1)`, one.Account().ID)
	settle(t, w.eagerly(t, w.renderer))
	if n := w.renderer.jobs.Load(); n != 0 {
		t.Errorf("%d jobs", n)
	}
	if n := w.pending(t, one); n != 0 {
		t.Errorf("%d items are pending", n)
	}
}

// A preset changes; the process that rebuilds is stopped, and another one continues. A request beside it is served.
func TestEager_RebuildsAfterAChange(t *testing.T) {
	t.Parallel()
	const items = 210 // more than two pages
	all := processes(t, 2)
	first, second := all[0], all[1]
	one := first.tenant(t, 100<<20)
	file := photo(t, 64, 64)
	made := make([]media.Item, items)
	concurrently(8, func(i int) {
		for at := i; at < items; at += 8 {
			item, err := first.uploadBytes(t.Context(), one.Principal, file)
			if err == nil {
				item, err = first.core.Media.Seal(t.Context(), one.Principal, item.ID)
			}
			if made[at] = item; err != nil {
				t.Error(err)
			}
		}
	})
	first.present(t, one, eager("a", 20))
	if n := first.pending(t, one); n != items {
		t.Errorf("%d items are pending", n)
	}
	before, after := first.eagerly(t, first.renderer), second.eagerly(t, second.renderer)
	running, stop := context.WithCancel(t.Context())
	first.renderer.gate, first.renderer.started = make(chan struct{}), make(chan struct{}, items)
	ended := make(chan error)
	go func() { ended <- before.Run(running) }()
	for range 5 {
		<-first.renderer.started
		first.renderer.gate <- struct{}{}
	}
	<-first.renderer.started
	// A request for a picture of another preset, and for one that is still to be made.
	second.get(t, one, made[0], rendition.Request{Preset: "b", Recipe: of("b", 11).Recipe})
	oldest := media.RecipeOf(eager("a", 20), 1, settings.FormatWebP, nil)
	second.get(t, one, made[1], rendition.Request{Preset: "a", Recipe: oldest})
	stop()
	must(t, <-ended)
	first.Counts(t, 0, "claims are left", `SELECT count(*) FROM work WHERE claim IS NOT NULL`)
	first.Counts(t, 0, "renditions are left in the making", `SELECT count(*) FROM rendition WHERE NOT ready`)
	if n := first.pending(t, one); n == 0 || n > items-4 {
		t.Errorf("%d items are pending", n)
	}
	settle(t, after)
	fresh := func(width int) int64 {
		id := media.RecipeOf(eager("a", width), 1, settings.FormatWebP, nil).ID(media.EncoderVersion)
		return first.QueryInt(t, `SELECT coalesce(sum(items), 0)::bigint FROM rendition_total WHERE account_id = $1 AND preset = 'a' AND recipe_id = $2 AND stale_since IS NULL`, one.Account().ID, id[:])
	}
	if n := fresh(20); n != items || first.pending(t, one) != 0 {
		t.Errorf("%d renditions, %d pending", n, first.pending(t, one))
	}
	// What changes nothing of it makes nothing.
	jobsBefore := second.renderer.jobs.Load()
	first.present(t, one, eager("a", 20), settings.Preset{Name: "lazy", Width: 9})
	settle(t, after)
	if n := second.renderer.jobs.Load(); n != jobsBefore {
		t.Errorf("%d jobs", n-jobsBefore)
	}
	first.present(t, one, eager("a", 30))
	settle(t, after)
	if n := fresh(30); n != items {
		t.Errorf("%d renditions of the changed preset", n)
	}
	_, err := rendition.Purge(t.Context(), rendition.PurgeConfig{StaleGrace: time.Hour}, rendition.PurgeDeps{Store: first.Store.Pictures, Presets: rendition.NewPresets(first.Settings), Log: slog.New(slog.DiscardHandler), Batches: purge.Batches{Size: 50}}, time.Now())
	must(t, err)
	if fresh(20) != 0 || fresh(30) != items {
		t.Errorf("%d stale renditions are not marked, or %d are", fresh(20), items-fresh(30))
	}
	first.balanced(t, one)
}

// A change while the pictures of an item are made is not lost.
func TestEager_MakesAgainWhatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	w.renderer.gate, w.renderer.started = make(chan struct{}), make(chan struct{}, 10)
	ended := make(chan error)
	go func() {
		ended <- e.step(t.Context())
	}()
	<-w.renderer.started
	w.present(t, one, eager("a", 25))
	settle(t, w.eagerly(t, &renderer{size: 1000})) // another process looks at the change, and its pass finds the item
	close(w.renderer.gate)
	must(t, <-ended)
	settle(t, e)
	recipe := media.RecipeOf(eager("a", 25), 1, settings.FormatWebP, nil).ID(media.EncoderVersion)
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE item_id = $1 AND ready AND recipe_id = $2`, item.ID, recipe[:]); n != 1 || w.queued(t, one) != 0 {
		t.Errorf("%d renditions, %d in the queue", n, w.queued(t, one))
	}
}

// An attempt that has read an item, or the presets, before they changed does not end the task.
func TestEager_AnEarlierAttemptEndsNoTask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	point := func(width int) settings.Preset {
		return settings.Preset{Name: "p", Width: width, Height: 10, Fit: settings.Cover, Focus: settings.Point, Format: settings.FormatWebP, Eager: true}
	}
	w.present(t, one, point(20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	focus := &media.FocusPoint{X: 100, Y: 200}
	for name, change := range map[string]func(media.Item){
		"the focus moves": func(item media.Item) {
			must(t, check.ErrorOf(w.core.Media.Update(t.Context(), one.Principal, item.ID, media.Change{Focus: focus, SetFocus: true}, media.Condition{})))
		},
		"a pass of other presets fails": func(media.Item) {
			w.present(t, one, point(30))
			settle(t, w.eagerly(t, &renderer{err: fault.New(fault.Unavailable, "no worker")}))
		},
	} {
		w.renderer.gate, w.renderer.started = make(chan struct{}), make(chan struct{}, 10)
		item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
		ended := make(chan error)
		go func() { ended <- e.step(t.Context()) }()
		<-w.renderer.started
		change(item)
		close(w.renderer.gate)
		must(t, <-ended)
		w.Counts(t, 1, name+": tasks", `SELECT count(*) FROM work WHERE kind = 'picture' AND key = $1`, item.ID)
		w.makeDue(t)
		settle(t, e)
	}
	if n := w.pending(t, one); n != 0 {
		t.Errorf("%d items are pending", n)
	}
}

func TestEager_ItemsThatChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	point := settings.Preset{Name: "p", Width: 20, Height: 10, Fit: settings.Cover, Focus: settings.Point, Format: settings.FormatWebP, Eager: true}
	w.present(t, one, point)
	e := w.eagerly(t, w.renderer)
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	settle(t, e)
	// The focus moves: the picture for another point is replaced, that for the centre is another recipe's. Other changes queue
	// nothing.
	caption, focus := "a caption", &media.FocusPoint{X: 100, Y: 200}
	_, err := w.core.Media.Update(t.Context(), one.Principal, item.ID, media.Change{Caption: &caption}, media.Condition{})
	must(t, err)
	if n := w.queued(t, one); n != 0 {
		t.Errorf("a caption queues %d items", n)
	}
	for _, point := range []*media.FocusPoint{{X: 900, Y: 200}, focus} {
		must(t, check.ErrorOf(w.core.Media.Update(t.Context(), one.Principal, item.ID, media.Change{Focus: point, SetFocus: true}, media.Condition{})))
		settle(t, e)
	}
	current, err := w.core.Media.Get(t.Context(), one.Principal, item.ID)
	must(t, err)
	w.service = w.newService(t, nil)
	if _, err := w.service.Get(t.Context(), current, one.owner, rendition.Request{Preset: "p", Recipe: media.RecipeOf(point, 1, settings.FormatWebP, focus)}); err != nil || w.ready(t, item) != 2 {
		t.Errorf("%d renditions after the focus has moved, %v", w.ready(t, item), err)
	}
	// Deleted while it is in the queue, and restored.
	must(t, check.ErrorOf(w.core.Media.Delete(t.Context(), one.Principal, item.ID, media.DeleteOptions{Agent: true})))
	must(t, check.ErrorOf(w.core.Media.Restore(t.Context(), one.Principal, item.ID)))
	if n := w.queued(t, one); n != 1 {
		t.Errorf("a restored item: %d in the queue", n)
	}
	must(t, check.ErrorOf(w.core.Media.Delete(t.Context(), one.Principal, item.ID, media.DeleteOptions{Agent: true})))
	if n := w.queued(t, one); n != 0 {
		t.Errorf("a deleted item: %d in the queue", n)
	}
	must(t, check.ErrorOf(w.core.Media.Restore(t.Context(), one.Principal, item.ID)))
	settle(t, e)
	if n := w.ready(t, item); n != 1 {
		t.Errorf("%d renditions of the restored item", n)
	}
	// Deleted, for good, while its pictures are made.
	next := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	w.renderer.gate, w.renderer.started = make(chan struct{}), make(chan struct{}, 10)
	ended := make(chan error)
	go func() {
		ended <- e.step(t.Context())
	}()
	<-w.renderer.started
	must(t, check.ErrorOf(w.core.Media.Delete(t.Context(), one.Principal, next.ID, media.DeleteOptions{})))
	close(w.renderer.gate)
	must(t, <-ended)
	settle(t, e)
	w.Counts(t, 0, "rows of a deleted item", `SELECT (SELECT count(*) FROM rendition WHERE item_id = $1) + (SELECT count(*) FROM work WHERE kind = 'picture' AND key = $1)`, next.ID)
	w.balanced(t, one)
}

func TestEager_AccountsTakeTurns(t *testing.T) {
	t.Parallel()
	w := setup(t)
	many, few, suspended := w.tenant(t, 10<<20), w.tenant(t, 10<<20), w.tenant(t, 10<<20)
	e := w.eagerly(t, w.renderer)
	for _, of := range []tenant{many, few, suspended} {
		w.present(t, of, eager("a", 20))
	}
	settle(t, e)
	held := w.sealedBytes(t, suspended.Principal, photo(t, 64, 64))
	w.exec(t, `UPDATE account SET suspended = true WHERE id = $1`, suspended.Account().ID)
	for range 20 {
		w.sealedBytes(t, many.Principal, photo(t, 64, 64))
	}
	must(t, e.step(t.Context()))
	item := w.sealedBytes(t, few.Principal, photo(t, 64, 64))
	must(t, e.step(t.Context()))
	if w.ready(t, item) != 1 || w.queued(t, many) == 0 {
		t.Errorf("%d renditions, while another account has %d items", w.ready(t, item), w.queued(t, many))
	}
	settle(t, e)
	if w.ready(t, held) != 0 || w.queued(t, suspended) != 1 || w.queued(t, many) != 0 {
		t.Errorf("%d renditions of a suspended account, %d and %d in the queue", w.ready(t, held), w.queued(t, suspended), w.queued(t, many))
	}
	w.exec(t, `UPDATE account SET suspended = false WHERE id = $1`, suspended.Account().ID)
	w.makeDue(t)
	settle(t, e)
	if w.ready(t, held) != 1 {
		t.Error("nothing is made of what was queued before the account was suspended")
	}
	// Without eager presets nothing is made.
	w.sealedBytes(t, many.Principal, photo(t, 64, 64))
	made := w.renderer.jobs.Load()
	w.present(t, many, settings.Preset{Name: "a", Width: 20, Format: settings.FormatWebP})
	settle(t, e)
	last := w.sealedBytes(t, many.Principal, photo(t, 64, 64))
	if w.queued(t, many) != 0 || w.renderer.jobs.Load() != made || w.ready(t, last) != 0 {
		t.Errorf("%d items are in the queue of an account without eager presets", w.queued(t, many))
	}
}

func TestEager_NeverMakesRoom(t *testing.T) {
	t.Parallel()
	w := setup(t)
	file := photo(t, 64, 64)
	one := w.tenant(t, int64(2*len(file)+2500))
	item := w.sealedBytes(t, one.Principal, file)
	w.get(t, one, item, of("b", 1))
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	if w.ready(t, item) != 2 {
		t.Fatalf("%d renditions", w.ready(t, item))
	}
	next := w.sealedBytes(t, one.Principal, file)
	settle(t, e)
	if w.ready(t, item) != 2 || w.ready(t, next) != 0 || w.queued(t, one) != 1 || w.pending(t, one) != 1 || w.metric(t, "mediastack_rendition_eager_items_total", "no_room") != 1 {
		t.Errorf("%d and %d renditions, %d in the queue", w.ready(t, item), w.ready(t, next), w.queued(t, one))
	}
	// What a request needs takes the room of what was made in advance, and was never used.
	w.service = w.newService(t, w.renderer)
	w.get(t, one, item, of("b", 2))
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE item_id = $1 AND ready AND preset = 'b'`, item.ID); n != 2 || w.ready(t, item) != 2 {
		t.Errorf("%d renditions that were used are left", n)
	}
	w.exec(t, `UPDATE account SET max_storage = max_storage * 2 WHERE id = $1`, one.Account().ID)
	w.makeDue(t)
	settle(t, e)
	if w.ready(t, next) != 1 || w.queued(t, one) != 0 {
		t.Errorf("%d renditions with room, %d in the queue", w.ready(t, next), w.queued(t, one))
	}
	w.balanced(t, one)
}

// Without room one item is tried in ten minutes, however many wait; a change of the presets is looked at at once.
func TestEager_AFullAccountRestsUntilItsPresetsChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	file := photo(t, 64, 64)
	one := w.tenant(t, int64(5*len(file)+100))
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	for range 5 {
		w.sealedBytes(t, one.Principal, file)
	}
	settle(t, e)
	settle(t, e)
	if n := w.metric(t, "mediastack_rendition_eager_items_total", "no_room"); n < 1 || n > 2 || w.queued(t, one) != 5 { // two are tried at once
		t.Errorf("%v items were tried, %d are in the queue", n, w.queued(t, one))
	}
	w.present(t, one, eager("a", 30))
	settle(t, e)
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition_eager WHERE account_id = $1 AND changed = seen`, one.Account().ID); n != 1 {
		t.Error("the change is not looked at")
	}
	// The pass has no room, either, and goes on where it was.
	tried := w.metric(t, "mediastack_rendition_eager_items_total", "no_room")
	settle(t, e)
	if n := w.metric(t, "mediastack_rendition_eager_items_total", "no_room"); n != tried || w.pending(t, one) == 0 {
		t.Errorf("%v items were tried again, %d are pending", n-tried, w.pending(t, one))
	}
	w.exec(t, `UPDATE account SET max_storage = max_storage * 10 WHERE id = $1`, one.Account().ID)
	for range 2 { // the pass and the task of an item can meet: the item is looked at again later
		w.makeDue(t)
		settle(t, e)
	}
	if w.rows(t, one) != 5 || w.pending(t, one) != 0 {
		t.Errorf("%d renditions with room, %d pending", w.rows(t, one), w.pending(t, one))
	}
}

// A pass goes on without an item that fails, which is tried again; it is not done again from the start.
func TestEager_APassGoesOnWithoutWhatFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	for range 5 {
		w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	}
	w.renderer.err = fault.New(fault.Unavailable, "no worker")
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	if w.renderer.jobs.Load() != 5 || w.queued(t, one) != 5 || w.pending(t, one) != 5 {
		t.Errorf("%d jobs, %d in the queue, %d pending", w.renderer.jobs.Load(), w.queued(t, one), w.pending(t, one))
	}
	w.Counts(t, 5, "tasks have failed once", `SELECT count(*) FROM work WHERE attempts = 1 AND failure <> '' AND due_at > now()`)
	w.renderer.err = nil
	w.makeDue(t)
	settle(t, e)
	if w.rows(t, one) != 5 || w.pending(t, one) != 0 || w.renderer.jobs.Load() != 10 {
		t.Errorf("%d renditions, %d pending, %d jobs", w.rows(t, one), w.pending(t, one), w.renderer.jobs.Load())
	}
}

func TestEager_GivesUpWhatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 20))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	attempts := func(err error) int64 {
		w.renderer.err = err
		before := w.renderer.jobs.Load()
		w.sealedBytes(t, one.Principal, photo(t, 64, 64))
		for range 6 {
			settle(t, e)
			w.makeDue(t)
		}
		return w.renderer.jobs.Load() - before
	}
	if n := attempts(fault.New(fault.UnsupportedType, "broken")); n != 1 || w.queued(t, one) != 0 {
		t.Errorf("a broken file: %d attempts", n)
	}
	if n := attempts(errors.Join(media.ErrWorkerFailed, fault.New(fault.Unavailable, "a worker died"))); n != 3 || w.queued(t, one) != 0 {
		t.Errorf("a file that kills workers: %d attempts", n)
	}
	if n := w.metric(t, "mediastack_rendition_eager_items_total", "failed"); n != 2 {
		t.Errorf("%v items have failed", n)
	}
	if n := attempts(fault.New(fault.Unavailable, "no worker")); n != 6 || w.queued(t, one) != 1 {
		t.Errorf("without workers: %d attempts", n)
	}
	// A process that was killed: its claim ends with its lease.
	w.renderer.err = nil
	claimed, err := w.Store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: rendition.PictureWork, Limit: 1, Duration: time.Hour})
	must(t, err)
	settle(t, e)
	if len(claimed) != 1 || w.queued(t, one) != 1 || w.rows(t, one) != 0 {
		t.Errorf("%v; %d renditions of an item that another process has claimed", claimed, w.rows(t, one))
	}
	w.makeDue(t)
	settle(t, e)
	if w.queued(t, one) != 0 || w.rows(t, one) != 1 {
		t.Errorf("%d renditions after the lease", w.rows(t, one))
	}
	w.balanced(t, one)
}

// With the workers that serve: one job makes all pictures of an item, of real files.
func TestEager_MakesPicturesOfTheImageWorkers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.useImages(t)
	pool := w.pool
	one := w.tenant(t, 10<<20)
	var presets []settings.Preset
	for i := range 5 {
		presets = append(presets, settings.Preset{Name: fmt.Sprintf("p%d", i), Width: 100 + i, Densities: []int{1, 2}, Eager: true})
	}
	w.present(t, one, presets...)
	service, e := w.service, w.eagerly(t, pool)
	settle(t, e) // there is no pass beside the tasks of the items
	item, broken := w.sealedBytes(t, one.Principal, photo(t, 800, 600)), w.sealedBytes(t, one.Principal, append(photoHeader(t), make([]byte, 3000)...))
	settle(t, e)
	if w.ready(t, item) != 10 || w.ready(t, broken) != 0 || w.queued(t, one) != 0 {
		t.Errorf("%d renditions, %d of a broken file, %d in the queue", w.ready(t, item), w.ready(t, broken), w.queued(t, one))
	}
	result, err := service.Get(t.Context(), item, one.owner, rendition.Request{Preset: "p3", Recipe: media.RecipeOf(presets[3], 2, settings.FormatAVIF, nil)})
	must(t, err)
	if result.Data != nil || result.Width != 206 || result.Object.MimeType != "image/avif" {
		t.Errorf("%+v", result)
	}
	w.balanced(t, one)
}

// The change of one account whose settings cannot be read kept the pictures of all accounts from being made.
func TestEager_UnreadableSettingsConcernTheirAccountOnly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	broken, other := w.tenant(t, 10<<20), w.tenant(t, 10<<20)
	for _, of := range []tenant{broken, other} {
		w.present(t, of, eager("a", 30))
	}
	w.exec(t, `UPDATE settings_tenant SET fields = '{"presets": [{"name": "A", "width": -1, "eager": true}]}' WHERE account_id = $1`, broken.Account().ID)
	item := w.sealedBytes(t, other.Principal, photo(t, 64, 64))
	e := w.eagerly(t, w.renderer)
	settle(t, e)
	if n := w.ready(t, item); n != 1 {
		t.Errorf("%d renditions of the other account", n)
	}
}

// What one job may not have in memory together is made one by one, and what cannot be made in a format, in the next one.
func TestEager_RepeatsPicturesThatFailInTheirJob(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 30), eager("b", 31), settings.Preset{Name: "auto", Width: 32, Eager: true})
	tooMany := fault.New(fault.UnsupportedType, "the picture has too many bytes")
	noEncoder := fault.Wrap(media.ErrOtherFormat, fault.UnsupportedType, "the picture could not be made in this format")
	together := true
	w.renderer.fails = func(r media.Recipe) error {
		switch {
		case r.Format == settings.FormatAVIF:
			return noEncoder
		case r.Width == 31 && together:
			together = false
			return tooMany
		default:
			return nil
		}
	}
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	settle(t, w.eagerly(t, w.renderer))
	if n := w.ready(t, item); n != 3 || w.queued(t, one) != 0 || w.metric(t, "mediastack_rendition_eager_items_total", "failed") != 0 {
		t.Errorf("%d renditions, %d items in the queue", n, w.queued(t, one))
	}
	w.balanced(t, one)
}

// While a bucket is missing, all items of its account would be given up after three attempts.
func TestEager_AMissingBucketIsNoLostFile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 30))
	item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	w.renderer.err = fault.Wrap(installation.ErrNoBucket, fault.Unavailable, "the bucket of the account is missing")
	e := w.eagerly(t, w.renderer)
	for range 5 {
		settle(t, e)
		w.makeDue(t)
	}
	w.renderer.err = nil
	settle(t, e)
	if n := w.ready(t, item); n != 1 {
		t.Errorf("%d renditions", n)
	}
}
