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

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// listed is an item of the model that the store's pages are compared with.
type listed struct {
	id     uuid.UUID
	access media.Access
	group  string
}

// Pages at a large offset are found with the pagination index. They equal those of the whole
// list, in whatever order items were changed, sealed and deleted, and compacted or not.
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
			again := time.NewTicker(20 * time.Millisecond) //nolint:forbidigo // the pace of the compactions
			defer again.Stop()
			for compacting.Err() == nil {
				<-again.C
				if err := s.Items.CompactPageIndex(compacting); err != nil && compacting.Err() == nil {
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
				if i%7 == 0 {
					move(t, s, scope, ids[i])
				}
				if _, err := s.Items.Seal(t.Context(), scope, ids[i], time.Now()); err != nil {
					t.Errorf("seal: %v", err)
				}
				if i%11 == 0 {
					move(t, s, scope, ids[i])
				}
				if i%5 == 0 {
					if _, err := s.Items.DeleteItem(t.Context(), scope, ids[i], time.Now()); err != nil {
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
	compact(t, store, url)
	counts(t, url, 0, "deltas are left after the compaction", `SELECT count(*) FROM item_page_delta`)
	for label, least := range map[string]int64{"": 3, "large": 2} {
		if n := number(t, url, `SELECT count(*) FROM item_page_block WHERE group_label = $1`, label); n < least {
			t.Errorf("the list %q has %d blocks", label, n)
		}
	}
	if n := number(t, url, `SELECT count(*) FROM item_page_block WHERE group_label NOT IN ('', 'large')`); n != 0 {
		t.Errorf("small lists have %d blocks", n)
	}
	if n := number(t, url, `SELECT max(items) FROM item_page_block`); n > 2048 {
		t.Errorf("a block has %d items", n)
	}
	comparePages(t, store, url, scope, "compacted")

	whole := wholeList(t, url, scope)
	for _, item := range whole[200:900] {
		move(t, store, scope, item.id)
	}
	comparePages(t, store, url, scope, "after changes")
	compact(t, store, url)
	comparePages(t, store, url, scope, "after changes, compacted")

	// Deleting items from the middle moves every page after them.
	for _, item := range whole[1000:3500] {
		must(t, check.ErrorOf(store.Items.DeleteItem(t.Context(), scope, item.id, time.Now())))
	}
	comparePages(t, store, url, scope, "after deletes")
	compact(t, store, url)
	comparePages(t, store, url, scope, "after deletes, compacted")
	for _, item := range wholeList(t, url, scope)[500:] {
		must(t, check.ErrorOf(store.Items.DeleteItem(t.Context(), scope, item.id, time.Now())))
	}
	compact(t, store, url)
	if n := number(t, url, `SELECT count(*) FROM item_page_block`); n != 0 {
		t.Errorf("small lists have %d blocks", n)
	}
	comparePages(t, store, url, scope, "when all lists are small")
}

// compact compacts all deltas. A call does nothing for an app that the store compacts by itself.
func compact(t *testing.T, store *postgres.Store, url string) {
	t.Helper()
	for number(t, url, `SELECT count(*) FROM item_page_delta`) > 0 {
		must(t, store.Items.CompactPageIndex(t.Context()))
	}
}

// move changes the access of an item, and its group in turn.
func move(t *testing.T, s *postgres.Store, scope media.Scope, id uuid.UUID) {
	t.Helper()
	_, err := s.Items.UpdateItem(t.Context(), scope, id, func(item media.Item, _ bool) (media.Item, bool, error) {
		item.Access = map[media.Access]media.Access{media.Public: media.Private, media.Private: media.Public}[item.Access]
		item.Group = map[string]string{"": "large", "large": "small", "small": ""}[item.Group]
		return item, true, nil
	})
	if err != nil {
		t.Errorf("move: %v", err)
	}
}

// filters are one of each kind of list. Of the items, about 3,600 are in the group "large", 400 in the group
// "small", and one in fifty of "large" is public.
var filters = []media.Filter{
	{}, {Access: media.Public}, {Access: media.Private},
	{Group: "large"}, {Group: "large", Access: media.Public}, {Group: "large", Access: media.Private},
	{Group: "small"}, {Group: "small", Access: media.Public}, {Group: "none"}, {Group: "none", Access: media.Private},
}

func comparePages(t *testing.T, store *postgres.Store, url string, scope media.Scope, when string) {
	t.Helper()
	whole := wholeList(t, url, scope)
	for _, filter := range filters {
		var want []uuid.UUID
		for _, item := range whole {
			if (filter.Access == "" || item.access == filter.Access) && (filter.Group == "" || item.group == filter.Group) {
				want = append(want, item.id)
			}
		}
		n := len(want)
		for _, offset := range []int{0, 499, 500, 501, 777, 1023, 1024, 1500, 2047, 2100, n / 2, n - 600, n - 551, n - 550, n - 549, n - 51, n - 50, n - 1, n, n + 100, 1 << 30} {
			if offset < 0 {
				continue
			}
			got, err := store.Items.ListItems(t.Context(), scope, filter, 50, offset)
			must(t, err)
			from := min(offset, n)
			page := want[from:min(from+50, n)]
			if !slices.EqualFunc(got.Items, page, func(item media.Item, id uuid.UUID) bool { return item.ID == id }) {
				t.Errorf("%s: the page of %+v at %d of %d has %d items and is not that of the whole list (%d)", when, filter, offset, n, len(got.Items), len(page))
			}
			if got.Total != int64(n) {
				t.Errorf("%s: the total of %+v at %d is %d, not %d", when, filter, offset, got.Total, n)
			}
		}
	}
}

func wholeList(t *testing.T, url string, scope media.Scope) []listed {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), `SELECT id, access, group_label FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id DESC`, scope.AppID)
	must(t, err)
	whole, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (listed, error) {
		var item listed
		return item, row.Scan(&item.id, &item.access, &item.group)
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
		access, group := media.Private, ""
		switch {
		case i%5 < 3:
			group = "large"
			if i%50 == 0 {
				access = media.Public
			}
		case i%15 == 3:
			group = "small"
		}
		if group != "large" && i%2 == 0 {
			access = media.Public
		}
		rows[i] = []any{ids[i], scope.AccountID, scope.AppID, "f", access, "", group, media.Objects{{Variant: media.Original, Key: media.ObjectKey(ids[i], media.Original)}}, int64(0), time.Now()}
	}
	_, err = conn.CopyFrom(t.Context(), pgx.Identifier{"stored_item"},
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
	var n int64
	must(t, testenv.Connections(t, url).QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}
