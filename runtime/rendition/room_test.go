package rendition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

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
	w.Counts(t, 3, "of the three that were used last are left", `SELECT count(*) FROM rendition WHERE width IN (1, 4, 5)`)
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
	must(t, check.ErrorOf(tx.Exec(t.Context(), `SELECT FROM account_usage WHERE account_id = $1 FOR UPDATE`, one.Account().ID)))
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
	must(t, check.ErrorOf(w.core.Media.Delete(t.Context(), one.Principal, deleted.ID, media.DeleteOptions{Agent: true})))
	for width := 1; width <= 7; width++ {
		w.get(t, one, item, of("a", width))
	}
	// One more is being made: its bytes are reserved, and it is of no use any more.
	claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: media.RenditionKey{1}}, AccountID: one.Account().ID, Preset: "a", Lease: time.Hour}
	claimed, err := w.Store.Pictures.ClaimRendition(t.Context(), claim)
	must(t, err)
	reserved, err := w.Store.Pictures.ReserveRendition(t.Context(), claim, 500)
	must(t, err)
	if !claimed || !reserved || w.rows(t, one) != 6 {
		t.Fatalf("%v, %v, %d renditions", claimed, reserved, w.rows(t, one))
	}
	if available, _, err := w.Store.Items.AvailableBytes(t.Context(), media.ScopeOf(one.Principal)); err != nil || available != 9000 {
		t.Errorf("%d bytes are available, %v", available, err)
	}
	must(t, check.ErrorOf(w.upload(t.Context(), one.Principal, 2000)))
	if n := w.rows(t, one); n != 4 { // 500 bytes were free
		t.Errorf("%d renditions are left", n)
	}
	must(t, check.ErrorOf(w.upload(t.Context(), one.Principal, 5000)))
	list, err := w.core.Media.ListDeleted(t.Context(), one.Principal, 1, 10)
	must(t, err)
	if n := w.rows(t, one); n != 0 || len(list.Items) != 1 {
		t.Errorf("%d renditions and %d deleted items are left", n, len(list.Items))
	}
	if err := w.Store.Pictures.FinishRendition(t.Context(), claim, rendition.Result{}); !errors.Is(err, rendition.ErrLost) {
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
