package rendition_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

func TestGet_MakesARenditionOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	first := all[0]
	one := first.tenant(t, 100_000)
	item := first.sealed(t, one.Principal, 500)
	gate, done := make(chan struct{}), make(chan struct{})
	for _, w := range all {
		w.renderer.gate = gate
	}
	go func() {
		defer close(done)
		concurrently(100, func(i int) {
			w := all[i%2]
			result, err := w.service.Get(t.Context(), item, one.owner, of("a", 100))
			if err != nil {
				t.Error(err)
				return
			}
			w.check(t, one, of("a", 100), result)
			if !result.Stored() {
				t.Error("it is not stored")
			}
		})
	}()
	wait.Until(t, "all wait", func() bool { return all[0].service.Waiting()+all[1].service.Waiting() == 100 })
	close(gate)
	<-done
	jobs(t, 1, all...)
	for _, w := range all { // again: from the cache of each process
		if again := w.get(t, one, item, of("a", 100)); !again.Stored() || again.Data != nil {
			t.Errorf("%+v", again)
		}
		if n := w.metric(t, "mediastack_rendition_requests_total", "cache"); n != 1 {
			t.Errorf("%v requests got a row of the cache", n)
		}
	}
	if restarted := newWorld(t, first.Env, first.clock); restarted.get(t, one, item, of("a", 100)).Data != nil {
		t.Error("a new process makes it again")
	}
	jobs(t, 1, all...)
	if n := first.rows(t, one); n != 1 {
		t.Errorf("%d rows", n)
	}
	first.balanced(t, one)
}

// Each attempt of a client that left cost a decode and killed a worker.
func TestGet_EndsItsJobWithTheLastRequestUnlessAWorkerHasIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	w.renderer.gate, w.renderer.started, w.renderer.ended = make(chan struct{}), make(chan struct{}, 10), make(chan error, 10)

	// Two requests wait; one of them leaves.
	leaving, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error), make(chan error)
	go func() {
		_, err := w.service.Get(leaving, item, one.owner, of("a", 100))
		left <- err
	}()
	<-w.renderer.started
	go func() {
		_, err := w.service.Get(t.Context(), item, one.owner, of("a", 100))
		stayed <- err
	}()
	wait.Until(t, "both wait", func() bool { return w.service.Waiting() == 2 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that left: %v", err)
	}
	w.renderer.gate <- struct{}{}
	if err := <-stayed; err != nil {
		t.Errorf("the request that stayed: %v", err)
	}
	jobs(t, 1, w)

	// The only one leaves while a worker makes the picture: it is stored.
	leaving, leave = context.WithCancel(t.Context())
	go func() {
		_, err := w.service.Get(leaving, item, one.owner, of("a", 150))
		left <- err
	}()
	<-w.renderer.started
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that left: %v", err)
	}
	w.renderer.gate <- struct{}{}
	wait.Until(t, "the picture that nobody waits for is stored", func() bool { return w.rows(t, one) == 2 })
	if result := w.get(t, one, item, of("a", 150)); !result.Stored() {
		t.Errorf("%+v", result)
	}
	jobs(t, 2, w)

	// The only one leaves before a worker is free.
	w.renderer.queue = make(chan struct{})
	leaving, leave = context.WithCancel(t.Context())
	go func() {
		_, err := w.service.Get(leaving, item, one.owner, of("a", 200))
		left <- err
	}()
	wait.Until(t, "it waits for a worker", func() bool { return w.renderer.jobs.Load() == 3 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the only request: %v", err)
	}
	if err := <-w.renderer.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the job that nobody needs: %v", err)
	}
	wait.Until(t, "its claim has ended", func() bool { return w.QueryInt(t, `SELECT count(*) FROM rendition WHERE NOT ready`) == 0 })
	w.balanced(t, one)
}

func TestGet_TakesOverTheClaimOfADeadProcess(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	killed, other := all[0], all[1]
	one := killed.tenant(t, 100_000)
	item := killed.sealed(t, one.Principal, 500)
	request := of("a", 100)
	for name, die := range map[string]func(){
		"its lease has ended": func() { killed.exec(t, `UPDATE rendition SET lease_ends = now() - interval '1s' WHERE NOT ready`) },
		"its process was declared dead": func() {
			killed.exec(t, `UPDATE runtime_instance SET lease_ends = now() - interval '1s'`)
			_, err := other.Store.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
			must(t, err)
			killed.exec(t, `UPDATE runtime_instance SET alive_since = now() - interval '2h' WHERE lease_ends > now()`)
		},
	} {
		_, err := killed.Store.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
		must(t, err)
		request.Recipe.Width++
		original, _ := item.Objects.Find(media.Original)
		claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: request.Recipe.Key(original.SHA256, media.EncoderVersion)}, AccountID: one.Account().ID, Preset: "a", Lease: time.Hour}
		if claimed, err := killed.Store.ClaimRendition(t.Context(), claim); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		if claimed, err := killed.Store.ClaimRendition(t.Context(), claim); err != nil || !claimed {
			t.Errorf("a claim whose answer was lost: %v, %v", claimed, err)
		}
		if reserved, err := killed.Store.ReserveRendition(t.Context(), claim, 7000); err != nil || !reserved {
			t.Fatal(reserved, err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := other.service.Get(impatient, item, one.owner, request); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: not yet, but %v", name, err)
		}
		cancel()
		jobs(t, 0, killed)
		die()
		before := other.metric(t, "mediastack_rendition_jobs_total")
		if result := other.get(t, one, item, request); !result.Stored() {
			t.Errorf("%s: %+v", name, result)
		}
		if after := other.metric(t, "mediastack_rendition_jobs_total"); after != before+1 {
			t.Errorf("%s: %v jobs", name, after-before)
		}
		// The process was only paused: it stores its object, and finds out.
		must(t, killed.Objects.Put(t.Context(), one.owner.Bucket, rendition.ObjectKey(item.ID, claim.ID), "image/webp", nopSeeker(), 1))
		if err := killed.Store.FinishRendition(t.Context(), claim, rendition.Result{}); !errors.Is(err, rendition.ErrLost) {
			t.Errorf("%s: a claim that was lost is finished: %v", name, err)
		}
		must(t, killed.Store.AbandonRendition(t.Context(), claim))
		if reserved, err := killed.Store.ReserveRendition(t.Context(), claim, 1); !errors.Is(err, rendition.ErrLost) || reserved {
			t.Errorf("%s: %v, %v", name, reserved, err)
		}
	}
	if n := killed.rows(t, one); n != 2 {
		t.Errorf("%d rows", n)
	}
	killed.balanced(t, one)
}

func TestGet_WithoutRoomIsSentUnstored(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.CacheEntries = 0 })
	one := w.tenant(t, 10_000)
	item := w.sealed(t, one.Principal, 6500) // room for three pictures of 1000 bytes
	for width := 1; width <= 3; width++ {
		w.get(t, one, item, of("a", width))
		w.exec(t, `UPDATE rendition SET used_at = now() - $1 * interval '1h' WHERE used_at > now() - interval '1h'`, 10-width)
	}
	// The first one is used, and recorded in a batch: the second one is the oldest then.
	w.get(t, one, item, of("a", 1))
	w.service.RecordUse(t.Context())
	w.get(t, one, item, of("a", 4))
	jobs(t, 4, w)
	for _, width := range []int{1, 3, 4} {
		w.get(t, one, item, of("a", width))
	}
	jobs(t, 4, w)
	w.balanced(t, one)

	w.renderer.size = 3501 // more than all renditions together free
	if result := w.get(t, one, item, of("a", 5)); result.Stored() {
		t.Errorf("%+v", result)
	}
	if n := w.rows(t, one); n != 3 || w.metric(t, "mediastack_rendition_unstored_total", "no_room") != 1 {
		t.Errorf("%d renditions are left: some have ended for nothing", n)
	}
	w.renderer.size = 3500
	if result := w.get(t, one, item, of("a", 6)); !result.Stored() || w.rows(t, one) != 1 {
		t.Errorf("%+v, %d rows", result, w.rows(t, one))
	}
	w.balanced(t, one)
}

// A picture that is asked for all the time was evicted before one that nobody needed for half an hour, since uses were recorded once an hour.
func TestGet_KeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10_000)
	item := w.sealed(t, one.Principal, 6500) // room for three pictures of 1000 bytes
	hot := of("a", 1)
	for width := 1; width <= 3; width++ {
		w.get(t, one, item, of("a", width))
	}
	// One after the other: the hot one is the oldest. From now on it is used every two minutes.
	w.exec(t, `UPDATE rendition SET used_at = now() - (10 - width) * interval '1 second'`)
	for range 16 {
		w.clock.Advance(2 * time.Minute)
		w.get(t, one, item, hot)
		w.service.RecordUse(t.Context())
	}
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE width = 1 AND used_at > $1`, w.clock.Now().Add(-7*time.Minute)); n != 1 {
		t.Error("the use of the picture is not recorded")
	}
	w.get(t, one, item, of("a", 4))
	w.get(t, one, item, of("a", 5))
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE width IN (1, 4, 5)`); n != 3 {
		t.Errorf("%d of the three that were used last are left", n)
	}
	w.balanced(t, one)
}

// Another request of the account holds its usage: the picture is sent, and can be stored by the next request.
func TestGet_OfALockedAccountIsSentUnstored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM account_usage WHERE account_id = $1 FOR UPDATE`, one.Account().ID)
	must(t, err)
	if result := w.get(t, one, item, of("a", 1)); result.Stored() {
		t.Errorf("%+v", result)
	}
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition`); n != 0 || w.metric(t, "mediastack_rendition_unstored_total", "store_failed") != 1 {
		t.Errorf("%d claims are left", n)
	}
	must(t, tx.Rollback(t.Context()))
	if result := w.get(t, one, item, of("a", 1)); !result.Stored() {
		t.Errorf("%+v", result)
	}
	w.balanced(t, one)
}

// Renditions never make an upload fail, and end before what can be restored.
func TestUpload_TakesTheRoomOfRenditionsFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10_000)
	item, deleted := w.sealed(t, one.Principal, 1000), w.sealed(t, one.Principal, 2000)
	_, err := w.core.Media.Delete(t.Context(), one.Principal, deleted.ID, media.DeleteOptions{Agent: true})
	must(t, err)
	for width := 1; width <= 7; width++ {
		w.get(t, one, item, of("a", width))
	}
	// One more is being made: its bytes are reserved, and it is of no use any more.
	claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: media.RenditionKey{1}}, AccountID: one.Account().ID, Preset: "a", Lease: time.Hour}
	claimed, err := w.Store.ClaimRendition(t.Context(), claim)
	must(t, err)
	reserved, err := w.Store.ReserveRendition(t.Context(), claim, 500)
	must(t, err)
	if !claimed || !reserved || w.rows(t, one) != 6 {
		t.Fatalf("%v, %v, %d renditions", claimed, reserved, w.rows(t, one))
	}
	if available, _, err := w.Store.AvailableBytes(t.Context(), media.ScopeOf(one.Principal)); err != nil || available != 9000 {
		t.Errorf("%d bytes are available, %v", available, err)
	}
	_, err = w.upload(t.Context(), one.Principal, 2000)
	must(t, err)
	if n := w.rows(t, one); n != 4 { // 500 bytes were free
		t.Errorf("%d renditions are left", n)
	}
	_, err = w.upload(t.Context(), one.Principal, 5000)
	must(t, err)
	list, err := w.core.Media.ListDeleted(t.Context(), one.Principal, 1, 10)
	must(t, err)
	if n := w.rows(t, one); n != 0 || len(list.Items) != 1 {
		t.Errorf("%d renditions and %d deleted items are left", n, len(list.Items))
	}
	if err := w.Store.FinishRendition(t.Context(), claim, rendition.Result{}); !errors.Is(err, rendition.ErrLost) {
		t.Errorf("the rendition that was being made: %v", err)
	}
	if _, err = w.upload(t.Context(), one.Principal, 2000); err != nil {
		t.Errorf("the room of the deleted item: %v", err)
	}
	if _, err = w.upload(t.Context(), one.Principal, 1); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("over the cap: %v", err)
	}
	w.balanced(t, one)
}

func TestDelete_EndsTheRenditions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	deletes := map[string]func(media.Item){
		"for good": func(item media.Item) {
			_, err := w.core.Media.Delete(t.Context(), one.Principal, item.ID, media.DeleteOptions{})
			must(t, err)
		},
		"into a tombstone": func(item media.Item) {
			_, err := w.core.Media.Delete(t.Context(), one.Principal, item.ID, media.DeleteOptions{Agent: true})
			must(t, err)
		},
		"by the purge of drafts": func(item media.Item) {
			w.exec(t, `UPDATE stored_item SET sealed_at = NULL WHERE id = $1`, item.ID)
			w.exec(t, `UPDATE app_total SET private_items = private_items - 1, bytes = bytes - $2 WHERE (app_id, slot) = (SELECT app_id, 0 FROM stored_item WHERE id = $1)`, item.ID, 500)
			w.exec(t, `DELETE FROM item_page_delta WHERE id = $1`, item.ID)
			_, err := w.Store.PurgeDrafts(t.Context(), w.clock.Now().Add(time.Hour), 10)
			must(t, err)
		},
	}
	for name, end := range deletes {
		item := w.sealed(t, one.Principal, 500)
		w.get(t, one, item, of("a", 1))
		w.get(t, one, item, of("b", 2))
		// A third one is being made when the item is deleted.
		w.renderer.gate, w.renderer.started = make(chan struct{}), make(chan struct{}, 1)
		late := make(chan rendition.Result)
		go func() {
			result, err := w.service.Get(t.Context(), item, one.owner, of("a", 3))
			if err == nil && result.Data == nil || err != nil && !fault.Is(err, fault.NotFound) { // its file may be gone already
				t.Errorf("%s: %+v, %v", name, result, err)
			}
			result.Release()
			late <- result
		}()
		<-w.renderer.started
		end(item)
		close(w.renderer.gate)
		if result := <-late; result.Stored() {
			t.Errorf("%s: a rendition of a deleted item is stored: %+v", name, result)
		}
		w.renderer.gate, w.renderer.started = nil, nil
		if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE item_id = $1`, item.ID); n != 0 {
			t.Errorf("%s: %d rows are left", name, n)
		}
		if n := w.QueryInt(t, `SELECT count(*) FROM object_removal WHERE not_before <= now() AND keys[1] LIKE '%rendition%'`); n == 0 {
			t.Errorf("%s: the removal of the objects is not due", name)
		}
		_, err := w.service.Get(t.Context(), item, one.owner, of("a", 9))
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: a rendition of a deleted item is made: %v", name, err)
		}
		w.balanced(t, one)
		if n := w.renditions(t, one); n != 0 {
			t.Errorf("%s: %d objects are left", name, n)
		}
	}
}

func TestLost_MakesTheRenditionAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	lost := w.get(t, one, item, of("a", 1))
	must(t, w.Objects.Remove(t.Context(), one.owner.Bucket, []string{lost.Object.Key}))
	again, err := w.service.Lost(t.Context(), item, one.owner, of("a", 1), lost)
	must(t, err)
	w.check(t, one, of("a", 1), again)
	if again.Object.Key == lost.Object.Key || !again.Stored() {
		t.Errorf("%+v", again)
	}
	jobs(t, 2, w)
	// Another request noticed late: it gets what was made.
	if late, err := w.service.Lost(t.Context(), item, one.owner, of("a", 1), lost); err != nil || late.Object.Key != again.Object.Key {
		t.Errorf("%+v, %v", late, err)
	}
	jobs(t, 2, w)
	w.balanced(t, one)
}

// While the installation is on hold, nothing is written to the database, which may be a copy of another one.
func TestHold_WritesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.UnstoredCache = 1 << 20 })
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	lost := w.get(t, one, item, of("a", 1))
	used := w.QueryInt(t, `SELECT (extract(epoch FROM used_at) * 1000000)::bigint FROM rendition`)
	must(t, w.Objects.Remove(t.Context(), one.owner.Bucket, []string{lost.Object.Key}))
	w.clock.Advance(2 * time.Hour)
	if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 1)); err != nil { // it is used, which is to be recorded
		t.Error(err)
	}
	w.hold.Store(true)
	for range 2 {
		again, err := w.service.Lost(t.Context(), item, one.owner, of("a", 1), lost)
		if err != nil || again.Stored() || len(again.Data) != w.renderer.size {
			t.Errorf("%+v, %v", again, err)
		}
		again.Release()
	}
	jobs(t, 2, w)
	cold := w.get(t, one, item, of("a", 2))
	cold.Release()
	w.service.RecordUse(t.Context())
	if n := w.rows(t, one); n != 1 || cold.Stored() || w.QueryInt(t, `SELECT count(*) FROM rendition WHERE NOT ready`) != 0 {
		t.Errorf("%d rows", n)
	}
	if now := w.QueryInt(t, `SELECT (extract(epoch FROM used_at) * 1000000)::bigint FROM rendition`); now != used {
		t.Error("the use is recorded")
	}
	w.hold.Store(false)
	w.service.RecordUse(t.Context())
	if now := w.QueryInt(t, `SELECT (extract(epoch FROM used_at) * 1000000)::bigint FROM rendition`); now == used {
		t.Error("the use is not recorded after the hold")
	}
	w.clock.Advance(10 * time.Minute) // what was made meanwhile is not kept for longer
	again, err := w.service.Lost(t.Context(), item, one.owner, of("a", 1), lost)
	if err == nil && !again.Stored() {
		t.Error("it is not stored after the hold")
	}
	must(t, err)
	w.balanced(t, one)
}

func TestGet_RemembersWhatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	w.renderer.err = fault.New(fault.UnsupportedType, "broken")
	for range 3 {
		if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 1)); !fault.Is(err, fault.UnsupportedType) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 1, w)
	w.clock.Advance(time.Minute)
	_, _ = w.service.Get(t.Context(), item, one.owner, of("a", 1))
	jobs(t, 2, w)
	w.renderer.err = fault.New(fault.Unavailable, "a worker died") // may succeed
	for range 2 {
		if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 2)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 4, w)
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// A file that holds workers for long, or kills them, does so once for all its recipes. What is stored of it is still served.
func TestGet_RemembersTheFileOnWhichWorkersFailed(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.CacheEntries = 0 })
	one := w.tenant(t, 100_000)
	item, other := w.sealed(t, one.Principal, 500), w.sealed(t, one.Principal, 600)
	w.get(t, one, item, of("a", 1))
	w.renderer.err = fault.Wrap(media.ErrWorkerFailed, fault.Unavailable, "the picture could not be made now")
	for width := 2; width < 5; width++ {
		_, err := w.service.Get(t.Context(), item, one.owner, of("a", width))
		if f := fault.From(err); f.Kind != fault.Unavailable || f.Public != "the picture could not be made now" || (width > 2) != (f.RetryAfter > 0) {
			t.Errorf("%d: %v, again after %s", width, err, f.RetryAfter)
		}
	}
	jobs(t, 2, w)
	if known := w.metric(t, "mediastack_rendition_failures_total", "known"); known != 2 {
		t.Errorf("%v failures were known", known)
	}
	w.renderer.err = nil
	w.get(t, one, item, of("a", 1))
	w.get(t, one, other, of("a", 2))
	jobs(t, 3, w)
	w.clock.Advance(time.Minute)
	w.get(t, one, item, of("a", 3))
	jobs(t, 4, w)
}

// What may be the encoder's fault is no failure of the file: other formats are made of it.
func TestGet_RemembersTheFormatOnWhichWorkersFailed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	died := fault.Wrap(errors.Join(media.ErrOtherFormat, media.ErrWorkerFailed), fault.Unavailable, "the picture could not be made as AVIF now")
	w.renderer.fails = func(recipe media.Recipe) error {
		if recipe.Format == settings.FormatAVIF {
			return died
		}
		return nil
	}
	avif := of("a", 1)
	avif.Recipe.Format = settings.FormatAVIF
	for width := range 3 {
		avif.Recipe.Width = 1 + width
		if _, err := w.service.Get(t.Context(), item, one.owner, avif); !errors.Is(err, media.ErrOtherFormat) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 1, w)
	w.get(t, one, item, of("a", 1))
	jobs(t, 2, w)
	w.renderer.fails = nil
	w.clock.Advance(time.Minute)
	w.get(t, one, item, avif)
	jobs(t, 3, w)
}

// Without an encoder no job is made; what another process has stored is served.
func TestGet_MakesNothingWithoutAnEncoder(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	lacking, w := all[0], all[1]
	lacking.renderer.without = settings.FormatAVIF
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	avif := of("a", 1)
	avif.Recipe.Format = settings.FormatAVIF
	for range 2 {
		if _, err := lacking.service.Get(t.Context(), item, one.owner, avif); !errors.Is(err, media.ErrOtherFormat) || !fault.Is(err, fault.UnsupportedType) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 0, lacking)
	avif.Recipe.Width = 2
	w.get(t, one, item, avif)
	lacking.get(t, one, item, avif)
	jobs(t, 1, all...)
}

func TestPurge_EndsWhatIsStaleAfterTheGrace(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	for _, request := range []rendition.Request{of("a", 1), of("a", 2), of("b", 3)} {
		w.get(t, one, item, request)
	}
	focus := of("c", 4) // the point is the item's: only the latest is kept, and none is stale
	for x := range 2 {
		focus.Recipe.PointX = 1 + x
		w.get(t, one, item, focus)
	}
	claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: media.RenditionKey{1}}, AccountID: one.Account().ID, Preset: "a", Lease: time.Minute}
	claimed, err := w.Store.ClaimRendition(t.Context(), claim)
	must(t, err)
	_, err = w.Store.ReserveRendition(t.Context(), claim, 10)
	must(t, err)
	if !claimed || w.rows(t, one) != 4 {
		t.Fatalf("%d renditions", w.rows(t, one))
	}
	count := func(preset string) (items int64) {
		counts, err := w.Store.PresetCounts(t.Context(), one.Account().ID)
		must(t, err)
		for _, c := range counts {
			if c.Preset == preset {
				items += c.Items
				if c.Bytes != c.Items*1000 {
					t.Errorf("%+v", c)
				}
			}
		}
		return items
	}
	now := time.Now()
	purge := func(at time.Duration, want int, allowed ...rendition.Request) {
		t.Helper()
		n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{StaleGrace: 24 * time.Hour}, rendition.PurgeDeps{Store: w.Store, Presets: presets(allowed), Log: slog.New(slog.DiscardHandler), Batches: purge.Batches{Size: 50}}, now.Add(at))
		if err != nil || n != want {
			t.Errorf("at %s the purge ended %d, %v, want %d", at, n, err, want)
		}
	}
	current := []rendition.Request{of("a", 1), of("b", 3), of("c", 4)}
	purge(0, 0, current...)
	purge(time.Hour, 1, current...)                        // the claim
	purge(20*time.Hour, 0, append(current, of("a", 2))...) // the preset is back
	purge(25*time.Hour, 0, current...)
	purge(48*time.Hour, 0, current...)
	if n := count("a"); n != 2 {
		t.Errorf("%d renditions of a", n)
	}
	purge(50*time.Hour, 1, current...)
	if a, b, c := count("a"), count("b"), count("c"); a != 1 || b != 1 || c != 1 {
		t.Errorf("%d, %d, %d renditions", a, b, c)
	}
	w.balanced(t, one)
	renamed := []rendition.Request{of("renamed", 1), of("b", 3), of("c", 4)}
	purge(51*time.Hour, 0, renamed...) // its pictures are those of its recipe
	purge(76*time.Hour, 0, renamed...)
	purge(77*time.Hour, 0)
	purge(102*time.Hour, 3)
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition_total`); n != 0 {
		t.Errorf("%d totals are left", n)
	}
	w.balanced(t, one)
}

// Renditions that an earlier run has marked as stale ended although the presets, which may have them again, could not be read.
func TestPurge_KeepsWhatItCannotJudge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	broken, other := w.tenant(t, 100_000), w.tenant(t, 100_000)
	for _, of := range []tenant{broken, other} {
		w.get(t, of, w.sealed(t, of.Principal, 500), rendition.Request{Preset: "a", Recipe: media.Recipe{Width: 1, Fit: settings.Inside, Format: settings.FormatWebP}})
	}
	var log bytes.Buffer
	stored := rendition.NewPresets(settings.NewService(w.Store))
	purge := func(at time.Duration, want int) {
		t.Helper()
		n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{StaleGrace: time.Hour}, rendition.PurgeDeps{Store: w.Store, Presets: stored, Log: slog.New(slog.NewTextHandler(&log, nil)), Batches: purge.Batches{Size: 50}}, time.Now().Add(at))
		if err != nil || n != want {
			t.Errorf("at %s the purge ended %d, %v, want %d", at, n, err, want)
		}
	}
	purge(0, 0) // no preset has them
	w.exec(t, `INSERT INTO settings_tenant (account_id, fields) VALUES ($1, '{"presets": [{"name": "A", "width": -1}]}')`, broken.Account().ID)
	purge(2*time.Hour, 1)
	if kept, ended := w.rows(t, broken), w.rows(t, other); kept != 1 || ended != 0 {
		t.Errorf("%d renditions of the account whose presets cannot be read are left, and %d of the other one", kept, ended)
	}
	if !strings.Contains(log.String(), broken.Account().ID.String()) || strings.Contains(log.String(), other.Account().ID.String()) {
		t.Errorf("the log does not say which account was skipped: %s", log.String())
	}
	w.exec(t, `DELETE FROM settings_tenant`)
	purge(3*time.Hour, 1)
	w.balanced(t, broken)
	w.balanced(t, other)
}

// lateClaims is a database that commits a claim whose statement was canceled, after the answer.
type lateClaims struct {
	*postgres.Store
	begun, left, abandoned chan struct{}
	committed              chan error
}

// ClaimRendition claims when the client has left.
func (l *lateClaims) ClaimRendition(ctx context.Context, claim rendition.Claim) (bool, error) {
	close(l.begun)
	<-l.left
	if ctx.Err() == nil {
		return l.Store.ClaimRendition(ctx, claim)
	}
	go func() {
		<-l.abandoned
		_, err := l.Store.ClaimRendition(context.WithoutCancel(ctx), claim)
		l.committed <- err
	}()
	return false, ctx.Err()
}

// AbandonRendition abandons a claim.
func (l *lateClaims) AbandonRendition(ctx context.Context, claim rendition.Claim) error {
	defer close(l.abandoned)
	return l.Store.AbandonRendition(ctx, claim)
}

// The claim of a client that left while it was being committed kept all other requests waiting until its lease ended.
func TestGet_AClientThatLeavesLeavesNoClaim(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	store := &lateClaims{Store: w.Store, begun: make(chan struct{}), left: make(chan struct{}), abandoned: make(chan struct{}), committed: make(chan error, 1)}
	service, err := rendition.New(w.cfg, rendition.Deps{Store: store, Objects: w.Objects, Renderer: w.renderer, NewID: w.Store.Cell().NewID, Now: w.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := service.Get(leaving, item, one.owner, of("a", 100))
		left <- err
	}()
	<-store.begun
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that left: %v", err)
	}
	close(store.left)
	<-store.abandoned
	wait.Until(t, "no claim is left", func() bool {
		select {
		case err := <-store.committed:
			must(t, err)
			t.Fatal("the statement of the claim ended with the client")
		default:
		}
		return service.Held() == 0 && w.rows(t, one) == 0
	})
	w.get(t, one, item, of("a", 100))
}
