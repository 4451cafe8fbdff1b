package rendition_test

import (
	"testing"
	"time"

	"mediastack.dev/runtime/rendition"
)

// Each view of a page of an account with a full cap made its pictures again.
func TestUnstored_IsMadeOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.UnstoredCache, c.Jobs = 64<<10, 2 })
	one, other := w.tenant(t, 10_000), w.tenant(t, 10_000)
	item, quiet := w.sealed(t, one.Principal, 9_500), w.sealed(t, other.Principal, 9_500)
	view := func(from tenant, width int) {
		t.Helper()
		picture := item
		if from.Account().ID == other.Account().ID {
			picture = quiet
		}
		result := w.get(t, from, picture, of("a", width))
		if result.Stored() {
			t.Error("it is stored")
		}
		result.Release()
	}
	for range 3 {
		view(one, 1)
	}
	view(other, 1)
	jobs(t, 2, w)
	if n := w.metric(t, "mediastack_rendition_requests_total", "memory"); n != 2 {
		t.Errorf("%v requests got it from memory", n)
	}
	// Another recipe is another picture. One account does not take the room of another.
	for width := 1; width <= 40; width++ {
		view(one, width)
		if bytes, held := w.service.UnstoredBytes(), w.service.Held(); bytes > 64<<10 || held != 0 {
			t.Fatalf("%d bytes, %d data slots are held", bytes, held)
		}
	}
	view(one, 40)
	view(other, 1)
	jobs(t, 41, w)
	view(one, 1) // 16 of them have room
	jobs(t, 42, w)
	w.clock.Advance(10 * time.Minute)
	view(one, 40)
	jobs(t, 43, w)
	// With room it is stored, after a while.
	w.clock.Advance(10 * time.Minute)
	w.exec(t, `UPDATE account SET max_storage = 1000000 WHERE id = $1`, one.Account().ID)
	if result := w.get(t, one, item, of("a", 40)); !result.Stored() {
		t.Errorf("%+v", result)
	}
	w.balanced(t, one)
}

// What slow responses send counts: beyond the bound a rendition keeps its data slot instead.
func TestUnstored_CountsWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.UnstoredCache, c.Jobs = 8<<10, 4 })
	one := w.tenant(t, 10_000)
	item := w.sealed(t, one.Principal, 9_500)
	var sending []rendition.Result
	for width := 1; width <= 4; width++ { // of about 2 KiB: two are kept, and two hold the data slots of the account
		sending = append(sending, w.get(t, one, item, of("a", width)))
	}
	if bytes, held := w.service.UnstoredBytes(), w.service.Held(); bytes > 4<<10 || held != 2 {
		t.Errorf("%d bytes, %d data slots are held", bytes, held)
	}
	for _, result := range sending {
		result.Release()
	}
	if bytes, held := w.service.UnstoredBytes(), w.service.Held(); bytes == 0 || held != 0 {
		t.Errorf("after the responses %d bytes, %d data slots are held", bytes, held)
	}
	for width := 5; width <= 9; width++ {
		w.get(t, one, item, of("a", width)).Release()
	}
	if bytes := w.service.UnstoredBytes(); bytes > 4<<10 || bytes == 0 {
		t.Errorf("%d bytes", bytes)
	}
	w.clock.Advance(10 * time.Minute)
	kept := w.get(t, one, item, of("a", 9)) // it has ended, and is made again
	again := w.get(t, one, item, of("a", 9))
	jobs(t, 10, w)
	kept.Release()
	again.Release()
}
