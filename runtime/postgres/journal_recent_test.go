package postgres_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// recent reads all events that a query matches, in parts, without a limit of time.
func recent(t *testing.T, store *postgres.Store, q journal.RecentQuery) (all []journal.Event, parts int) {
	t.Helper()
	for {
		parts++
		read, err := store.Journal.Recent(t.Context(), q)
		must(t, err)
		if len(read.Events) > q.Limit {
			t.Fatalf("%d events in a part of %d", len(read.Events), q.Limit)
		}
		all = append(all, read.Events...)
		switch {
		case len(read.Events) == q.Limit:
			q.Before = read.Events[q.Limit-1].Position
		case read.Stopped != nil:
			q.Before = *read.Stopped
		default:
			return all, parts
		}
	}
}

func TestRecent_IsTheJournalBackwards(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	must(t, check.ErrorOf(store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)))
	scope := journaled(t, store, account.Actor{Kind: account.ActorKey, ID: "key"})
	for range 3 {
		item := commitDraft(t, store, scope, nil)
		must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now())))
	}
	exec(t, url, `INSERT INTO journal (account_id, type, epoch, xid) VALUES ($1, 'account.suspended', 0, 900000000000000000)`, scope.AccountID) // of before a restore
	state, err := store.Journal.JournalState(t.Context(), scope.AccountID)
	must(t, err)
	read, err := store.Journal.Events(t.Context(), journal.Query{AccountID: scope.AccountID, Epoch: state.Epoch, Oldest: state.Oldest, Limit: 1000, Examined: 1000})
	must(t, err)
	slices.Reverse(read.Events)
	if len(read.Events) < 7 {
		t.Fatalf("only %d events", len(read.Events))
	}
	for limit := 1; limit <= len(read.Events)+1; limit++ {
		for _, examined := range []int{1, 2, 3, 1000} {
			got, _ := recent(t, store, journal.RecentQuery{AccountID: scope.AccountID, OfAccount: true, Limit: limit, Examined: examined})
			if fmt.Sprint(got) != fmt.Sprint(read.Events) {
				t.Errorf("in parts of %d, of %d that are looked at: %v\nwant %v", limit, examined, got, read.Events)
			}
		}
	}
}

// People see what is committed. A transaction of another event that is open holds nothing back.
func TestRecent_ShowsWhatIsCommittedWhileOtherTransactionsAreOpen(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := journaled(t, store, account.Actor{})
	exec(t, url, `DELETE FROM journal`)
	open, err := connect(t, url).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(open.Exec(t.Context(), `INSERT INTO journal (account_id, app_id, type) VALUES ($1, $2, 'media.deleted')`, scope.AccountID, scope.AppID)))
	exec(t, url, `INSERT INTO journal (account_id, app_id, type) VALUES ($1, $2, 'media.sealed')`, scope.AccountID, scope.AppID)
	query := journal.RecentQuery{AccountID: scope.AccountID, Limit: 10, Examined: 10}
	if got, _ := recent(t, store, query); told(got) != "sealed 0 " {
		t.Errorf("while the first transaction is open: %s", told(got))
	}
	must(t, open.Commit(t.Context()))
	if got, _ := recent(t, store, query); told(got) != "sealed 0 ; deleted 0 " {
		t.Errorf("afterwards: %s", told(got))
	}
}

func TestRecent_IsFiltered(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accountID, other, blog, site := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	first, second := uuid.New(), uuid.New()
	exec(t, url, `DELETE FROM journal`)
	for _, e := range []struct {
		account, app, item uuid.UUID
		kind               string
	}{
		{accountID, blog, first, "uploaded"}, {accountID, blog, first, "sealed"}, {accountID, site, second, "uploaded"}, {other, site, second, "sealed"},
		{accountID, uuid.Nil, uuid.Nil, "suspended"}, {accountID, blog, first, "deleted"},
	} {
		exec(t, url, `INSERT INTO journal (account_id, app_id, item_id, type) VALUES ($1, nullif($2, '00000000-0000-0000-0000-000000000000'::uuid), nullif($3, '00000000-0000-0000-0000-000000000000'::uuid), $4)`,
			e.account, e.app, e.item, map[bool]string{true: "media.", false: "account."}[e.app != uuid.Nil]+e.kind)
	}
	exec(t, url, `INSERT INTO journal (account_id, app_id, type, at) VALUES ($1, $2, 'media.purged', now() - interval '8 days')`, accountID, blog)
	week := time.Now().Add(-7 * 24 * time.Hour)
	for name, c := range map[string]struct {
		query journal.RecentQuery
		want  string
	}{
		"all of the account":        {journal.RecentQuery{AccountID: accountID, OfAccount: true, Since: week}, "deleted account.suspended uploaded sealed uploaded"},
		"without a time":            {journal.RecentQuery{AccountID: accountID, OfAccount: true}, "purged deleted account.suspended uploaded sealed uploaded"},
		"an app":                    {journal.RecentQuery{AccountID: accountID, AppID: blog, Since: week}, "deleted sealed uploaded"},
		"an app and the account":    {journal.RecentQuery{AccountID: accountID, AppID: site, OfAccount: true, Since: week}, "account.suspended uploaded"},
		"an item":                   {journal.RecentQuery{AccountID: accountID, OfAccount: true, ItemID: first, Since: week}, "deleted sealed uploaded"},
		"an item of another app":    {journal.RecentQuery{AccountID: accountID, AppID: site, OfAccount: true, ItemID: first, Since: week}, ""},
		"types":                     {journal.RecentQuery{AccountID: accountID, OfAccount: true, Types: []journal.Type{journal.MediaSealed, journal.Suspended}, Since: week}, "account.suspended sealed"},
		"an item and a type":        {journal.RecentQuery{AccountID: accountID, ItemID: second, Types: []journal.Type{journal.MediaUploaded}, Since: week}, "uploaded"},
		"another account":           {journal.RecentQuery{AccountID: other, OfAccount: true, Since: week}, "sealed"},
		"an account without events": {journal.RecentQuery{AccountID: uuid.New(), OfAccount: true, Since: week}, ""},
	} {
		for _, examined := range []int{1, 2, 1000} {
			c.query.Limit, c.query.Examined = 3, examined
			got, _ := recent(t, store, c.query)
			var kinds []string
			for _, e := range got {
				kinds = append(kinds, strings.TrimPrefix(string(e.Type), "media."))
			}
			if strings.Join(kinds, " ") != c.want {
				t.Errorf("%s, %d at a time: %v, want %s", name, examined, kinds, c.want)
			}
		}
	}
}

func TestRecent_StopsAfterSoManyEventsOfOthers(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accountID, appID := uuid.New(), uuid.New()
	exec(t, url, `INSERT INTO journal (account_id, app_id, type) VALUES ($1, $2, 'media.deleted')`, accountID, appID)
	exec(t, url, `INSERT INTO journal (account_id, type) SELECT $1, 'settings.changed' FROM generate_series(1, 25)`, accountID)
	got, parts := recent(t, store, journal.RecentQuery{AccountID: accountID, AppID: appID, Limit: 10, Examined: 10})
	if len(got) != 1 || got[0].Type != journal.MediaDeleted || parts != 3 {
		t.Errorf("%d parts have %v, want one event in 3 parts", parts, got)
	}
}

func TestNamedItems_AreThoseOfTheAccountThatAreNotGone(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	must(t, check.ErrorOf(store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)))
	scope := journaled(t, store, account.Actor{})
	foreign := provisioned(t, store)
	named := func(name string) func(*media.Item) { return func(item *media.Item) { item.FileName = name } }
	draft, sealed, deleted, gone := commitDraft(t, store, scope, named("draft")), commitDraft(t, store, scope, named("sealed")), commitDraft(t, store, scope, named("deleted")), commitDraft(t, store, scope, named("gone"))
	theirs := commitDraft(t, store, foreign, named("theirs"))
	for _, item := range []media.Item{sealed, deleted} {
		must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now())))
	}
	must(t, check.ErrorOf(store.Items.DeleteItemUndoably(t.Context(), scope, deleted.ID, media.UndoWindow{From: time.Now(), Until: time.Now().Add(time.Hour)}, time.Now())))
	must(t, check.ErrorOf(store.Items.DeleteItem(t.Context(), scope, gone.ID, time.Now())))
	got, err := store.Journal.NamedItems(t.Context(), scope.AccountID, []uuid.UUID{draft.ID, sealed.ID, deleted.ID, gone.ID, theirs.ID, uuid.New()})
	must(t, err)
	want := map[uuid.UUID]journal.NamedItem{
		draft.ID: {AppID: scope.AppID, AppName: account.DefaultApp, Name: "draft", Draft: true}, sealed.ID: {AppID: scope.AppID, AppName: account.DefaultApp, Name: "sealed"}, deleted.ID: {AppID: scope.AppID, AppName: account.DefaultApp, Name: "deleted", Deleted: true},
	}
	if !maps.Equal(got, want) {
		t.Errorf("the items are %+v, want %+v", got, want)
	}
}
