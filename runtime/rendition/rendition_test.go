package rendition_test

import (
	"testing"
	"time"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
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

func TestDelete_EndsTheRenditions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	deletes := map[string]func(media.Item){
		"for good": func(item media.Item) {
			must(t, check.ErrorOf(w.core.Media.Delete(t.Context(), one.Principal, item.ID, media.DeleteOptions{})))
		},
		"into a tombstone": func(item media.Item) {
			must(t, check.ErrorOf(w.core.Media.Delete(t.Context(), one.Principal, item.ID, media.DeleteOptions{Agent: true})))
		},
		"by the purge of drafts": func(item media.Item) {
			w.exec(t, `UPDATE stored_item SET sealed_at = NULL WHERE id = $1`, item.ID)
			w.exec(t, `UPDATE app_total SET private_items = private_items - 1, bytes = bytes - $2 WHERE (app_id, slot) = (SELECT app_id, 0 FROM stored_item WHERE id = $1)`, item.ID, 500)
			w.exec(t, `DELETE FROM item_page_delta WHERE id = $1`, item.ID)
			must(t, check.ErrorOf(w.Store.Items.PurgeDrafts(t.Context(), w.clock.Now().Add(time.Hour), 10)))
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
			if err == nil && result.Data == nil || err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.FileLost) { // its file may be gone already
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
