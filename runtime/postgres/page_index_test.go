package postgres_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// listed is an item of the model that the store's pages are compared with.
type listed struct {
	id     uuid.UUID
	access media.Access
}

// Pages at a large offset are found with the pagination index. They equal those of the whole
// list, in whatever order items were sealed and deleted, and compacted or not.
func TestListItems_ByIndexEqualsWholeList(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	other := open(t, url)
	scope := provisioned(t, store)
	const items = 6000
	random := rand.New(rand.NewPCG(7, 7))
	ids := drafts(t, url, scope, items)
	random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })

	compacting, stop := context.WithCancel(t.Context())
	var compacted sync.WaitGroup
	for _, s := range []*postgres.Store{store, other} { // two at once, so that they conflict
		compacted.Go(func() {
			again := time.NewTicker(20 * time.Millisecond)
			defer again.Stop()
			for compacting.Err() == nil {
				<-again.C
				if err := s.CompactPageIndex(compacting); err != nil && compacting.Err() == nil {
					t.Errorf("compact: %v", err)
				}
			}
		})
	}
	var work sync.WaitGroup
	for w := range 6 {
		work.Go(func() {
			s := []*postgres.Store{store, other}[w%2]
			for i := w; i < items; i += 6 {
				if _, err := s.Seal(t.Context(), scope, ids[i], time.Now()); err != nil {
					t.Errorf("seal: %v", err)
				}
				if i%5 == 0 {
					if _, err := s.DeleteItem(t.Context(), scope, ids[i], time.Now()); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	work.Wait()
	stop()
	compacted.Wait()

	comparePages(t, store, url, scope, "with deltas")
	must(t, store.CompactPageIndex(t.Context()))
	if n := number(t, url, `SELECT count(*) FROM item_page_delta`); n != 0 {
		t.Errorf("%d deltas are left after the compaction", n)
	}
	if n := number(t, url, `SELECT count(*) FROM item_page_block`); n < 3 {
		t.Errorf("%d blocks for %d items", n, items)
	}
	if n := number(t, url, `SELECT max(items) FROM item_page_block`); n > 2048 {
		t.Errorf("a block has %d items", n)
	}
	comparePages(t, store, url, scope, "compacted")

	// Deleting items from the middle moves every page after them.
	whole := wholeList(t, url, scope)
	for _, item := range whole[1000:3500] {
		_, err := store.DeleteItem(t.Context(), scope, item.id, time.Now())
		must(t, err)
	}
	comparePages(t, store, url, scope, "after deletes")
	must(t, store.CompactPageIndex(t.Context()))
	comparePages(t, store, url, scope, "after deletes, compacted")
}

func comparePages(t *testing.T, store *postgres.Store, url string, scope media.Scope, when string) {
	t.Helper()
	whole := wholeList(t, url, scope)
	for _, access := range []media.Access{"", media.Public, media.Private} {
		var want []uuid.UUID
		for _, item := range whole {
			if access == "" || item.access == access {
				want = append(want, item.id)
			}
		}
		for _, offset := range []int{0, 499, 501, 777, 1023, 1024, 1500, 2047, 2100, len(want) - 1, len(want), len(want) + 100, 1 << 30} {
			if offset < 0 {
				continue
			}
			got, err := store.ListItems(t.Context(), scope, media.Filter{Access: access}, 50, offset)
			must(t, err)
			from := min(offset, len(want))
			page := want[from:min(from+50, len(want))]
			if !slices.EqualFunc(got, page, func(item media.Item, id uuid.UUID) bool { return item.ID == id }) {
				t.Errorf("%s: the page of %q at %d has %d items and is not that of the whole list (%d)", when, access, offset, len(got), len(page))
			}
		}
	}
}

func wholeList(t *testing.T, url string, scope media.Scope) []listed {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), `SELECT id, access FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id DESC`, scope.AppID)
	must(t, err)
	whole, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (listed, error) {
		var item listed
		return item, row.Scan(&item.id, &item.access)
	})
	must(t, err)
	return whole
}

// drafts inserts drafts by SQL, without objects in S3.
func drafts(t *testing.T, url string, scope media.Scope, n int) []uuid.UUID {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	ids := make([]uuid.UUID, n)
	rows := make([][]any, n)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
		access := media.Private
		if i%3 == 0 {
			access = media.Public
		}
		rows[i] = []any{ids[i], scope.AccountID, scope.AppID, "f", access, "", "", media.Objects{{Variant: media.Original, Key: media.ObjectKey(ids[i], media.Original)}}, int64(0), time.Now()}
	}
	_, err = conn.CopyFrom(t.Context(), pgx.Identifier{"item"},
		[]string{"id", "account_id", "app_id", "file_name", "access", "caption", "group_label", "objects", "bytes", "created_at"}, pgx.CopyFromRows(rows))
	must(t, err)
	return ids
}

func provisioned(t *testing.T, store *postgres.Store) media.Scope {
	t.Helper()
	made, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	apps, _, err := registry(store).OpenApps(t.Context(), made.ID, nil)
	must(t, err)
	return media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket}
}

func number(t *testing.T, url, sql string, args ...any) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var n int64
	must(t, conn.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}
