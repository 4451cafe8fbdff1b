package journal_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
)

// Recent and NamedItems complete the store of the tests of Feed, which reads neither.
func (m *memory) Recent(context.Context, journal.RecentQuery) (journal.Read, error) {
	return journal.Read{}, nil
}

func (m *memory) NamedItems(context.Context, uuid.UUID, []uuid.UUID) (map[uuid.UUID]journal.NamedItem, error) {
	return nil, nil
}

// recorded is a store that returns what a test says, and records what is asked.
type recorded struct {
	*memory
	read    journal.Read
	queries []journal.RecentQuery
	ids     [][]uuid.UUID
}

func newRecorded() *recorded { return &recorded{memory: newMemory()} }

func (r *recorded) Recent(_ context.Context, q journal.RecentQuery) (journal.Read, error) {
	r.queries = append(r.queries, q)
	read := r.read
	read.Events = read.Events[:min(len(read.Events), q.Limit)]
	return read, nil
}

func (r *recorded) NamedItems(_ context.Context, _ uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]journal.NamedItem, error) {
	r.ids = append(r.ids, ids)
	return map[uuid.UUID]journal.NamedItem{ids[0]: {Name: "a.txt"}}, nil
}

func numbered(n int) (events []journal.Event) {
	for i := range n {
		events = append(events, journal.Event{Position: journal.Position{Epoch: 1, Transaction: int64(n - i), ID: int64(n - i)}})
	}
	return events
}

func TestRecent_PagesLeadToOlderEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events  int
		stopped *journal.Position
		limit   int
		want    int
		before  journal.Position // of the next page; zero = there is none
	}{
		"fewer than a page":        {3, nil, 50, 3, journal.Position{}},
		"a page":                   {50, nil, 50, 50, journal.Position{}},
		"more than a page":         {51, nil, 50, 50, journal.Position{Epoch: 1, Transaction: 2, ID: 2}},
		"more than a small page":   {4, nil, 3, 3, journal.Position{Epoch: 1, Transaction: 2, ID: 2}},
		"a search that stopped":    {1, &journal.Position{Epoch: 1, Transaction: 1, ID: 7}, 3, 1, journal.Position{Epoch: 1, Transaction: 1, ID: 7}},
		"a search without a match": {0, &journal.Position{Epoch: 1, Transaction: 9, ID: 7}, 3, 0, journal.Position{Epoch: 1, Transaction: 9, ID: 7}},
	} {
		store := newRecorded()
		store.read = journal.Read{Events: numbered(c.events), Stopped: c.stopped}
		activity := journal.NewActivity(store)
		page, err := activity.Recent(t.Context(), newCaller(), journal.RecentRequest{Limit: c.limit})
		must(t, err)
		if len(page.Events) != c.want || (page.Older != "") != (c.before != journal.Position{}) {
			t.Errorf("%s: %d events, older are at %q", name, len(page.Events), page.Older)
		}
		if page.Older == "" {
			continue
		}
		_, err = activity.Recent(t.Context(), newCaller(), journal.RecentRequest{Before: page.Older, Limit: 1})
		must(t, err)
		if got := store.queries[1].Before; got != c.before {
			t.Errorf("%s: the next page is before %+v, want %+v", name, got, c.before)
		}
	}
}

// A principal sees the events of its app. Those of the account are for the Default App, and all are for owners.
func TestRecent_AsksForWhatThePrincipalMaySee(t *testing.T) {
	t.Parallel()
	store, p := newRecorded(), newCaller()
	item := uuid.New()
	for _, c := range []struct {
		app     string
		all     bool
		account bool
	}{{account.DefaultApp, false, true}, {"blog", false, false}, {account.DefaultApp, true, true}, {"blog", true, true}} {
		p.App.Name = c.app
		_, err := journal.NewActivity(store).Recent(t.Context(), p, journal.RecentRequest{AllApps: c.all, ItemID: item, Types: []journal.Type{journal.KeyEnded}, Limit: 7})
		must(t, err)
		q := store.queries[len(store.queries)-1]
		if q.AccountID != p.Account.ID || (q.AppID == uuid.Nil) != c.all || !c.all && q.AppID != p.App.ID || q.OfAccount != c.account || q.ItemID != item ||
			!slices.Equal(q.Types, []journal.Type{journal.KeyEnded}) || q.Examined != 10_000 || q.Since.IsZero() || q.Before != (journal.Position{}) {
			t.Errorf("%+v: %+v", c, q)
		}
	}
}

func TestRecent_RejectsMalformedRequests(t *testing.T) {
	t.Parallel()
	store := newRecorded()
	store.read.Events = numbered(2)
	activity := journal.NewActivity(store)
	page, err := activity.Recent(t.Context(), newCaller(), journal.RecentRequest{Limit: 1})
	must(t, err)
	changed := func(at int, value byte) string {
		raw, err := base64.RawURLEncoding.DecodeString(page.Older)
		must(t, err)
		raw[at] = value
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	feed, err := newFeed(t, store).Read(t.Context(), newCaller(), journal.Request{Limit: 1})
	must(t, err)
	for name, c := range map[string]struct {
		request journal.RecentRequest
		says    string
	}{
		"a short cursor":         {journal.RecentRequest{Before: page.Older[1:], Limit: 1}, "the cursor must be"},
		"a long cursor":          {journal.RecentRequest{Before: page.Older + "A", Limit: 1}, "the cursor must be"},
		"another alphabet":       {journal.RecentRequest{Before: "+" + page.Older[1:], Limit: 1}, "the cursor must be"},
		"another text of it":     {journal.RecentRequest{Before: page.Older[:len(page.Older)-1] + string(page.Older[len(page.Older)-1]+1), Limit: 1}, "the cursor must be"},
		"another version":        {journal.RecentRequest{Before: changed(0, 1), Limit: 1}, "the cursor must be"},
		"a negative epoch":       {journal.RecentRequest{Before: changed(1, 0x80), Limit: 1}, "the cursor must be"},
		"a negative transaction": {journal.RecentRequest{Before: changed(9, 0x80), Limit: 1}, "the cursor must be"},
		"a negative id":          {journal.RecentRequest{Before: changed(17, 0x80), Limit: 1}, "the cursor must be"},
		"the beginning":          {journal.RecentRequest{Before: base64.RawURLEncoding.EncodeToString(append([]byte{101}, make([]byte, 24)...)), Limit: 1}, "the cursor must be"},
		"a cursor of the feed":   {journal.RecentRequest{Before: feed.Next, Limit: 1}, "the cursor must be"},
		"a word":                 {journal.RecentRequest{Before: "now", Limit: 1}, "the cursor must be"},
		"an unknown type":        {journal.RecentRequest{Types: []journal.Type{"media.sealed", "media.moved"}, Limit: 1}, `no event type "media.moved"; the types are media.uploaded, media.sealed`},
		"no limit":               {journal.RecentRequest{}, "limit must be from 1 to 100"},
		"a negative limit":       {journal.RecentRequest{Limit: -1}, "limit must be from 1 to 100"},
		"a large limit":          {journal.RecentRequest{Limit: 101}, "limit must be from 1 to 100"},
	} {
		before := len(store.queries)
		if _, err := activity.Recent(t.Context(), newCaller(), c.request); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.From(err).Public, c.says) || len(store.queries) != before {
			t.Errorf("%s: %v, want Invalid with %q", name, err, c.says)
		}
	}
	must(t, check.ErrorOf(activity.Recent(t.Context(), newCaller(), journal.RecentRequest{Before: page.Older, Limit: journal.MaxRecent})))
}

func FuzzRecent_AcceptsAnyCursor(f *testing.F) {
	store := newRecorded()
	store.read.Events = numbered(2)
	activity := journal.NewActivity(store)
	page, err := activity.Recent(f.Context(), newCaller(), journal.RecentRequest{Limit: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page.Older)
	f.Add("now")
	f.Fuzz(func(t *testing.T, before string) {
		store.queries = nil
		if _, err := activity.Recent(t.Context(), newCaller(), journal.RecentRequest{Before: before, Limit: 1}); err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatal(err)
		}
		for _, q := range store.queries {
			if min(q.Before.Epoch, q.Before.Transaction, q.Before.ID) < 0 {
				t.Fatalf("%+v is read", q)
			}
		}
	})
}

func TestActivity_HasNothingWithoutAJournal(t *testing.T) {
	t.Parallel()
	store := newRecorded()
	store.change(func(s *journal.State) { s.Retention = 0 })
	_, err := journal.NewActivity(store).Recent(t.Context(), newCaller(), journal.RecentRequest{Limit: 1})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.From(err).Public, "spec.journal") || len(store.queries) != 0 {
		t.Errorf("without a journal: %v", err)
	}
}

func TestItems_AreReadAtOnce(t *testing.T) {
	t.Parallel()
	store := newRecorded()
	activity := journal.NewActivity(store)
	one, two := uuid.New(), uuid.New()
	items, err := activity.Items(t.Context(), newCaller(), []journal.Event{{ItemID: one}, {}, {ItemID: two}, {ItemID: one}})
	must(t, err)
	if len(store.ids) != 1 || !slices.Equal(store.ids[0], []uuid.UUID{one, two}) || items[one].Name != "a.txt" {
		t.Errorf("the items of %v are %v", store.ids, items)
	}
	items, err = activity.Items(t.Context(), newCaller(), []journal.Event{{}})
	must(t, err)
	if len(store.ids) != 1 || len(items) != 0 {
		t.Errorf("without items %v are read", store.ids)
	}
}

// The story of the database: who did what, newest first, with the names of the files that are there.
func TestActivity_TellsWhoDidWhat(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := h.tenant()
	blog := h.app(p, "blog")
	activity := journal.NewActivity(h.Store.Journal)
	item := h.Upload(p, []byte("a"), media.Fields{FileName: "a.txt"})
	must(t, check.ErrorOf(h.Items.Seal(t.Context(), p, item.ID)))
	other := h.Upload(blog, []byte("b"), media.Fields{FileName: "b.txt"})
	must(t, check.ErrorOf(h.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
	told := func(p account.Principal, q journal.RecentRequest) (lines []string) {
		t.Helper()
		q.Limit = 50
		page, err := activity.Recent(t.Context(), p, q)
		must(t, err)
		items, err := activity.Items(t.Context(), p, page.Events)
		must(t, err)
		for _, e := range page.Events {
			if strings.HasPrefix(string(e.Type), "media.") {
				lines = append(lines, fmt.Sprintf("%s %s %s", e.Type, items[e.ItemID].Name, e.Actor.Kind))
			}
		}
		return lines
	}
	deleted, sealed, uploaded, theirs := "media.deleted a.txt key", "media.sealed a.txt key", "media.uploaded a.txt key", "media.uploaded b.txt key"
	for name, c := range map[string]struct {
		of      account.Principal
		request journal.RecentRequest
		want    []string
	}{
		"the Default App":        {p, journal.RecentRequest{}, []string{deleted, sealed, uploaded}},
		"another app":            {blog, journal.RecentRequest{}, []string{theirs}},
		"its owner":              {p, journal.RecentRequest{AllApps: true}, []string{deleted, theirs, sealed, uploaded}},
		"an item":                {p, journal.RecentRequest{AllApps: true, ItemID: other.ID}, []string{theirs}},
		"an item of another app": {blog, journal.RecentRequest{ItemID: item.ID}, nil},
		"deletes":                {p, journal.RecentRequest{Types: []journal.Type{journal.MediaDeleted}}, []string{deleted}},
	} {
		if got := told(c.of, c.request); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
