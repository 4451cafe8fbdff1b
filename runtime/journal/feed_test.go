package journal_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// harness is a service whose accounts have journals, and a feed of them.
type harness struct {
	*mediatest.Harness
	feed *journal.Feed
}

func setup(t *testing.T) *harness {
	t.Helper()
	b := mediatest.New(t)
	return &harness{b, newFeed(t, b.Store.Journal)}
}

// exec runs a statement of the test.
func (h *harness) exec(sql string, args ...any) {
	h.T.Helper()
	must(h.T, check.ErrorOf(testenv.Connections(h.T, h.URL).Exec(h.T.Context(), sql, args...)))
}

// tenant returns an account with a journal, whose deletes can be undone.
func (h *harness) tenant() account.Principal {
	h.T.Helper()
	p := h.UndoTenant(64<<20, account.UndoEveryone)
	h.exec(`UPDATE account SET journal_retention = 604800 WHERE id = $1`, p.Account.ID)
	return p
}

// app returns a principal of another app of an account.
func (h *harness) app(p account.Principal, name string) account.Principal {
	h.T.Helper()
	apps, _, err := h.Registry.OpenApps(h.T.Context(), p.Account.ID, []string{name})
	must(h.T, err)
	at := slices.IndexFunc(apps, func(app account.App) bool { return app.Name == name })
	token, _, err := h.Registry.IssueKey(h.T.Context(), apps[at].ID, 1, 0)
	must(h.T, err)
	other, err := h.Store.Credentials.FindPrincipal(h.T.Context(), token.Hash())
	must(h.T, err)
	return other
}

// read returns the events after a place until one satisfies last, and the cursor then. Transactions in the background, such as those of a
// lease, can delay them.
func (h *harness) read(p account.Principal, q journal.Request, last func(journal.Event) bool) (events []journal.Event, next string) {
	h.T.Helper()
	next = q.After
	wait.Until(h.T, "the last event is read", func() bool {
		for {
			q.After = next
			page, err := h.feed.Read(h.T.Context(), p, q)
			must(h.T, err)
			if len(page.Events) > q.Limit {
				h.T.Fatalf("%d events on a page of %d", len(page.Events), q.Limit)
			}
			events, next = append(events, page.Events...), page.Next
			switch {
			case slices.ContainsFunc(page.Events, last):
				return true
			case !page.More:
				return false
			}
		}
	})
	return events, next
}

// ofType returns what read needs to stop at an event of a type.
func ofType(kind journal.Type) func(journal.Event) bool {
	return func(event journal.Event) bool { return event.Type == kind }
}

// ofItem returns what read needs to stop at the first event of an item.
func ofItem(id uuid.UUID) func(journal.Event) bool {
	return func(event journal.Event) bool { return event.ItemID == id }
}

// text returns what a test compares of an event.
func text(event journal.Event) string {
	return fmt.Sprintf("%s %s %d %q %v", event.Type, event.ItemID, event.Sequence, event.Group, event.Fields)
}

func texts(events []journal.Event) (all []string) {
	for _, event := range events {
		all = append(all, text(event))
	}
	return all
}

func TestFeed_TellsTheLifeOfAnItem(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	item := h.Upload(p, []byte("hello"), media.Fields{Group: "g"})
	must(t, check.ErrorOf(h.Items.Seal(t.Context(), p, item.ID)))
	must(t, check.ErrorOf(h.Items.Seal(t.Context(), p, item.ID))) // changes nothing
	page := account.Actor{Kind: account.ActorPage, Email: "a***@example.org"}
	login := account.Actor{Kind: account.ActorLogin, ID: uuid.NewString(), Name: "Assistant", Email: "a***@example.org"}
	caption, group := "c", "other"
	must(t, check.ErrorOf(h.Items.Update(t.Context(), p.By(page), item.ID, media.Change{Caption: &caption, Group: &group}, media.Condition{})))
	must(t, check.ErrorOf(h.Items.Update(t.Context(), p, item.ID, media.Change{Caption: &caption}, media.Condition{}))) // changes nothing
	must(t, check.ErrorOf(h.Items.Delete(t.Context(), p.By(login), item.ID, media.DeleteOptions{})))
	must(t, check.ErrorOf(h.Items.Restore(t.Context(), p.By(page), item.ID)))
	must(t, check.ErrorOf(h.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{Permanent: true})))
	draft := h.Upload(p, []byte("draft"), media.Fields{})

	events, _ := h.read(p, journal.Request{Limit: 100}, ofItem(draft.ID))
	version, key := int64(item.Version), account.ActorOfKey(p.Key.ID)
	want := []struct {
		text  string
		actor account.Actor
	}{
		{fmt.Sprintf(`media.uploaded %s %d "g" []`, item.ID, version), key},
		{fmt.Sprintf(`media.sealed %s %d "g" []`, item.ID, version+1), key},
		{fmt.Sprintf(`media.updated %s %d "other" [caption group]`, item.ID, version+2), page},
		{fmt.Sprintf(`media.deleted %s %d "other" []`, item.ID, version+3), login},
		{fmt.Sprintf(`media.restored %s %d "other" []`, item.ID, version+4), page},
		{fmt.Sprintf(`media.deleted %s %d "other" []`, item.ID, version+5), key},
		{fmt.Sprintf(`media.uploaded %s %d "" []`, draft.ID, draft.Version), key},
	}
	if len(events) != len(want) {
		t.Fatalf("the events are\n%s", strings.Join(texts(events), "\n"))
	}
	ids := map[string]bool{}
	for i, event := range events {
		if text(event) != want[i].text || event.Actor != want[i].actor {
			t.Errorf("event %d is %s of %+v, want %s of %+v", i, text(event), event.Actor, want[i].text, want[i].actor)
		}
		if event.AccountID != p.Account.ID || event.AppID != p.App.ID || ids[event.EventID()] || event.At.IsZero() {
			t.Errorf("event %d is %+v", i, event)
		}
		ids[event.EventID()] = true
	}
}

func TestFeed_GivesEachEventOnceOnPagesOfAnySize(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	const items = 7
	var last media.Item
	for range items {
		last = h.Sealed(p, []byte("x"), media.Fields{})
	}
	must(t, check.ErrorOf(h.Items.Delete(t.Context(), p, last.ID, media.DeleteOptions{})))
	whole, end := h.read(p, journal.Request{Limit: journal.MaxLimit}, ofType(journal.MediaDeleted))
	if len(whole) != 2*items+1 {
		t.Fatalf("%d events, want %d", len(whole), 2*items+1)
	}
	for _, limit := range []int{1, 2, 3, 5, len(whole) - 1, len(whole), len(whole) + 1} {
		events, _ := h.read(p, journal.Request{Limit: limit}, ofType(journal.MediaDeleted))
		if !slices.Equal(texts(events), texts(whole)) {
			t.Errorf("pages of %d have\n%s\nwant\n%s", limit, strings.Join(texts(events), "\n"), strings.Join(texts(whole), "\n"))
		}
	}
	sealed, _ := h.read(p, journal.Request{Limit: 2, Types: []journal.Type{journal.MediaSealed, journal.MediaDeleted}}, ofType(journal.MediaDeleted))
	if want := slices.DeleteFunc(slices.Clone(whole), ofType(journal.MediaUploaded)); !slices.Equal(texts(sealed), texts(want)) {
		t.Errorf("two types have\n%s", strings.Join(texts(sealed), "\n"))
	}
	for _, after := range []string{end, journal.AfterNow} {
		page, err := h.feed.Read(t.Context(), p, journal.Request{After: after, Limit: 10})
		must(t, err)
		if len(page.Events) > 0 || page.More {
			t.Errorf("after the end is %+v", page)
		}
		next := h.Upload(p, []byte("y"), media.Fields{})
		if events, _ := h.read(p, journal.Request{After: page.Next, Limit: 10}, ofItem(next.ID)); len(events) != 1 {
			t.Errorf("%d events after the end, want the new one", len(events))
		}
		must(t, check.ErrorOf(h.Items.Delete(t.Context(), p, next.ID, media.DeleteOptions{})))
		_, _ = h.read(p, journal.Request{After: page.Next, Limit: 10}, ofType(journal.MediaDeleted))
	}
}

// A transaction that has written an event and runs on has an older number than those that end before it. A reader that went past it would
// never show the event.
func TestFeed_WaitsForTransactionsThatAreOpen(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	first := h.Upload(p, []byte("1"), media.Fields{})
	before, cursor := h.read(p, journal.Request{Limit: 10}, ofItem(first.ID))

	open, err := testenv.Connections(t, h.URL).Begin(t.Context())
	must(t, err)
	defer func() { _ = open.Rollback(context.Background()) }()
	hidden := uuid.New()
	must(t, check.ErrorOf(open.Exec(t.Context(), `INSERT INTO journal (account_id, app_id, item_id, sequence, type) VALUES ($1, $2, $3, 1, 'media.sealed')`, p.Account.ID, p.App.ID, hidden)))
	second, third := h.Upload(p, []byte("2"), media.Fields{}), h.Upload(p, []byte("3"), media.Fields{})
	for range 3 {
		page, err := h.feed.Read(t.Context(), p, journal.Request{After: cursor, Limit: 1})
		must(t, err)
		if len(page.Events) > 0 || page.More {
			t.Fatalf("%v are shown while a transaction before them is open", texts(page.Events))
		}
		cursor = page.Next
	}
	must(t, open.Commit(t.Context()))
	after, _ := h.read(p, journal.Request{After: cursor, Limit: 1}, ofItem(third.ID))
	var ids []uuid.UUID
	for _, event := range append(before, after...) {
		ids = append(ids, event.ItemID)
	}
	if want := []uuid.UUID{first.ID, hidden, second.ID, third.ID}; !slices.Equal(ids, want) {
		t.Errorf("the events are of %v, want %v", ids, want)
	}
}

func TestFeed_ShowsNoEventsOfOthers(t *testing.T) {
	t.Parallel()
	h := setup(t)
	one, other := h.tenant(), h.tenant()
	blog := h.app(one, "blog")
	theirs := h.Sealed(other, []byte("other"), media.Fields{})
	posted := h.Sealed(blog, []byte("blog"), media.Fields{})
	h.exec(`INSERT INTO journal (account_id, type, actor) VALUES ($1, 'account.resumed', '{"kind":"operator"}')`, one.Account.ID)
	mine := h.Sealed(one, []byte("one"), media.Fields{})
	for _, c := range []struct {
		p      account.Principal
		item   media.Item
		before []journal.Type // of no item
	}{{one, mine, []journal.Type{journal.Resumed}}, {blog, posted, []journal.Type{journal.KeyIssued}}, {other, theirs, nil}} {
		end := h.Upload(c.p, []byte("end"), media.Fields{})
		for _, limit := range []int{1, 100} {
			events, _ := h.read(c.p, journal.Request{Limit: limit}, ofItem(end.ID))
			want := []string{fmt.Sprintf(`media.uploaded %s %d "" []`, c.item.ID, c.item.Version-1), fmt.Sprintf(`media.sealed %s %d "" []`, c.item.ID, c.item.Version),
				fmt.Sprintf(`media.uploaded %s %d "" []`, end.ID, end.Version)}
			for _, kind := range c.before {
				want = append([]string{fmt.Sprintf(`%s %s 0 "" []`, kind, uuid.Nil)}, want...)
			}
			if !slices.Equal(texts(events), want) {
				t.Errorf("the app %s, %d a page:\n%s\nwant\n%s", c.p.App.Name, limit, strings.Join(texts(events), "\n"), strings.Join(want, "\n"))
			}
		}
	}
	// A cursor is no permission: that of one app is a place among the events of another.
	_, cursor := h.read(other, journal.Request{Limit: 1}, ofItem(theirs.ID))
	end := h.Upload(blog, []byte("end"), media.Fields{})
	events, _ := h.read(blog, journal.Request{After: cursor, Limit: 100}, ofItem(end.ID))
	for _, event := range events {
		if event.AppID != blog.App.ID {
			t.Errorf("the cursor of another account shows %s", text(event))
		}
	}
}

func TestFeed_HasNothingWithoutAJournal(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.UndoTenant(64<<20, account.UndoEveryone)
	h.Sealed(p, []byte("x"), media.Fields{})
	for _, after := range []string{"", journal.AfterNow} {
		_, err := h.feed.Read(t.Context(), p, journal.Request{After: after, Limit: 10})
		if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.From(err).Public, "spec.journal") {
			t.Errorf("after %q: %v, want Conflict", after, err)
		}
	}
	h.exec(`UPDATE account SET journal_retention = 604800 WHERE id = $1`, p.Account.ID)
	later := h.Upload(p, []byte("y"), media.Fields{})
	if events, _ := h.read(p, journal.Request{Limit: 10}, ofItem(later.ID)); len(events) != 1 {
		t.Errorf("%v, want what came after the journal was switched on", texts(events))
	}
}

func TestFeed_RejectsCursorsOfOtherEpochs(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	must(t, check.ErrorOf(h.Store.Installations.Identity(t.Context())))
	former := h.Upload(p, []byte("1"), media.Fields{})
	_, cursor := h.read(p, journal.Request{Limit: 10}, ofItem(former.ID))
	h.exec(`UPDATE installation SET epoch = epoch + 1`)
	if _, err := h.feed.Read(t.Context(), p, journal.Request{After: cursor, Limit: 10}); !fault.Is(err, fault.Gone) {
		t.Errorf("after a restore: %v, want Gone", err)
	}
	// The numbers of transactions begin anywhere in the new server. All events of before it are in the order before its own.
	h.exec(`UPDATE journal SET xid = xid + 1000000000000`)
	next := h.Upload(p, []byte("2"), media.Fields{})
	events, cursor := h.read(p, journal.Request{Limit: 1}, ofItem(next.ID))
	if len(events) != 2 || events[0].ItemID != former.ID || events[1].Epoch != events[0].Epoch+1 {
		t.Errorf("the events are %v", texts(events))
	}
	must(t, check.ErrorOf(h.feed.Read(t.Context(), p, journal.Request{After: cursor, Limit: 10})))
	h.exec(`UPDATE installation SET epoch = epoch - 1`)
	if _, err := h.feed.Read(t.Context(), p, journal.Request{After: cursor, Limit: 10}); !fault.Is(err, fault.Gone) {
		t.Errorf("a cursor of a later epoch: %v, want Gone", err)
	}
}

func TestFeed_RejectsACursorOlderThanTheRetention(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	item := h.Upload(p, []byte("1"), media.Fields{})
	_, _ = h.read(p, journal.Request{Limit: 1}, ofItem(item.ID))
	h.exec(`UPDATE journal SET at = at - interval '2 hours'`)
	page, err := h.feed.Read(t.Context(), p, journal.Request{Limit: 1})
	must(t, err)
	if len(page.Events) != 1 {
		t.Fatalf("%d events, want one of two hours ago", len(page.Events))
	}
	h.exec(`UPDATE account SET journal_retention = 3600 WHERE id = $1`, p.Account.ID)
	if _, err := h.feed.Read(t.Context(), p, journal.Request{After: page.Next, Limit: 1}); !fault.Is(err, fault.Gone) {
		t.Errorf("%v, want Gone", err)
	}
	page, err = h.feed.Read(t.Context(), p, journal.Request{Limit: 1})
	must(t, err)
	if len(page.Events) > 0 {
		t.Errorf("%v is older than the retention", texts(page.Events))
	}
}

func TestFeed_WaitsForAnEventOfTheDatabase(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	page, err := h.feed.Read(t.Context(), p, journal.Request{After: journal.AfterNow, Limit: 10})
	must(t, err)
	done := begin(t.Context(), h.feed, p, journal.Request{After: page.Next, Limit: 10, Wait: time.Minute})
	item := h.Upload(p, []byte("1"), media.Fields{})
	if got := wait.Receive(t, "the page", done); got.err != nil || len(got.page.Events) != 1 || got.page.Events[0].ItemID != item.ID {
		t.Errorf("%+v, %v", got.page, got.err)
	}
}

// The load of the test below: a connection for each writer, with MEDIASTACK_TEST_FULL that of docs/decisions/0048.
func load() (writers, transactions, connections int) {
	if os.Getenv("MEDIASTACK_TEST_FULL") != "" {
		return 64, 200, 64
	}
	return 64, 12, 16
}

// Readers that go on by cursor, at any replica, read each event that is committed once, whatever transactions are open meanwhile, and none
// that is rolled back.
func TestFeed_MissesNothingWhileManyWrite(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	writers, transactions, connections := load()
	cfg, err := pgxpool.ParseConfig(h.URL)
	must(t, err)
	cfg.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout(t))
	defer cancel()

	another, err := journal.NewFeed(journal.Config{Waiting: 8, MaxWait: time.Minute}, h.Open().Journal, nil)
	must(t, err)
	here, err := journal.NewFeed(journal.Config{Waiting: 8, MaxWait: time.Minute}, h.Store.Journal, nil)
	must(t, err)
	last := uuid.New()
	seen := make([]map[uuid.UUID]int, 8)
	var reading sync.WaitGroup
	for i := range seen {
		seen[i] = map[uuid.UUID]int{}
		reading.Go(func() {
			q, at := journal.Request{Limit: []int{1, 3, 10, 1000}[i%4], Wait: time.Minute}, journal.Position{}
			for seen[i][last] == 0 {
				page, err := []*journal.Feed{here, another}[rand.IntN(2)].Read(ctx, p, q)
				if err != nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				for _, event := range page.Events {
					if event.Transaction < at.Transaction || event.Transaction == at.Transaction && event.ID <= at.ID {
						t.Errorf("reader %d: %+v is after %+v", i, event.Position, at)
					}
					seen[i][event.ItemID]++
					at = event.Position
				}
				q.After = page.Next
			}
		})
	}

	committed, rolledBack := sync.Map{}, atomic.Int64{}
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range transactions {
				ids := []uuid.UUID{uuid.New(), uuid.New()}
				abandon := rand.IntN(10) == 0
				err := write(ctx, pool, p, ids, abandon)
				switch {
				case err != nil:
					t.Errorf("write: %v", err)
					return
				case abandon:
					rolledBack.Add(1)
				default:
					for _, id := range ids {
						committed.Store(id, true)
					}
				}
			}
		})
	}
	writing.Wait()
	must(t, write(ctx, pool, p, []uuid.UUID{last}, false))
	reading.Wait()

	want := map[uuid.UUID]int{last: 1}
	committed.Range(func(id, _ any) bool {
		want[id.(uuid.UUID)] = 1 //nolint:forcetypeassert // what was stored
		return true
	})
	if rolledBack.Load() == 0 || len(want) < writers*transactions {
		t.Errorf("%d events were committed, and %d transactions rolled back", len(want), rolledBack.Load())
	}
	for i, got := range seen {
		missed, twice, others := 0, 0, 0
		for id := range want {
			if got[id] == 0 {
				missed++
			}
		}
		for id, times := range got {
			if want[id] == 0 {
				others++
			}
			if times > 1 {
				twice++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("reader %d of %d events: %d missed, %d twice, %d that were rolled back", i, len(want), missed, twice, others)
		}
	}
}

// write commits a transaction with events of these items, or rolls it back. It stays open for up to 20 ms between them, and after them.
func write(ctx context.Context, pool *pgxpool.Pool, p account.Principal, ids []uuid.UUID, abandon bool) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, id := range ids {
		if _, err := tx.Exec(ctx, `INSERT INTO journal (account_id, app_id, item_id, sequence, type) VALUES ($1, $2, $3, 1, 'media.sealed')`, p.Account.ID, p.App.ID, id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_sleep(random() * 0.02)`); err != nil {
			return err
		}
	}
	if abandon {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}
