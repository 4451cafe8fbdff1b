package journal_test

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
)

// memory is a journal in memory. Its clock is that of the test.
type memory struct {
	mu     sync.Mutex
	state  journal.State
	events []journal.Event
	// stops is set while each query stops after one event that it does not return.
	stops   bool
	looks   int
	queries []journal.Query
}

func newMemory() *memory {
	return &memory{state: journal.State{Epoch: 1, Oldest: 100, Retention: 24 * time.Hour}}
}

func (m *memory) JournalState(context.Context, uuid.UUID) (journal.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	state := m.state
	state.Now = time.Now()
	return state, nil
}

func (m *memory) Events(_ context.Context, q journal.Query) (journal.Read, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queries = append(m.queries, q)
	if m.stops {
		return journal.Read{Stopped: &journal.Position{Epoch: 1, Transaction: q.After.Transaction + 1, ID: 1, At: time.Now()}}, nil
	}
	var read journal.Read
	for _, event := range m.events {
		later := event.Transaction > q.After.Transaction || event.Transaction == q.After.Transaction && event.ID > q.After.ID
		if later && event.Transaction < q.Oldest && !event.At.Before(q.Since) && len(read.Events) < q.Limit {
			read.Events = append(read.Events, event)
		}
	}
	return read, nil
}

// add commits a transaction with an event of this id.
func (m *memory) add(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, journal.Event{Position: journal.Position{Epoch: m.state.Epoch, Transaction: m.state.Oldest, ID: id, At: time.Now()}, Type: journal.MediaSealed})
	m.state.Oldest++
}

func (m *memory) change(change func(*journal.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.state)
}

func newFeed(t *testing.T, store journal.Store) *journal.Feed {
	t.Helper()
	feed, err := journal.NewFeed(journal.Config{Waiting: 2, MaxWait: time.Minute}, store, nil)
	must(t, err)
	return feed
}

// newCaller returns a caller of an account of its own.
func newCaller() account.Principal {
	return account.Principal{Account: account.Account{ID: uuid.New()}, App: account.App{ID: uuid.New(), Name: account.DefaultApp}}
}

// waitFor is a request that waits from the end of the journal.
func waitFor(wait time.Duration) journal.Request {
	return journal.Request{After: journal.AfterNow, Limit: 10, Wait: wait}
}

// ended is what a read has returned, and when.
type ended struct {
	page journal.Page
	err  error
	took time.Duration
}

// begin reads beside the test.
func begin(ctx context.Context, feed *journal.Feed, p account.Principal, q journal.Request) <-chan ended {
	done, start := make(chan ended, 1), time.Now()
	go func() {
		page, err := feed.Read(ctx, p, q)
		done <- ended{page, err, time.Since(start)}
	}()
	return done
}

func TestRead_WaitsUntilThereIsAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.add(1)
		done := begin(t.Context(), newFeed(t, store), newCaller(), waitFor(30*time.Second))
		time.Sleep(10 * time.Second) //nolint:forbidigo // the clock of synctest
		store.add(2)
		got := <-done
		must(t, got.err)
		if len(got.page.Events) != 1 || got.page.Events[0].ID != 2 || got.page.More {
			t.Errorf("the page is %+v, want event 2 alone", got.page)
		}
		if got.took < 10*time.Second || got.took > 11200*time.Millisecond {
			t.Errorf("it took %s, want at most 1.2s after the event", got.took)
		}
	})
}

func TestRead_ReturnsAnEmptyPageOnceTheWaitIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		feed := newFeed(t, store)
		got := <-begin(t.Context(), feed, newCaller(), waitFor(30*time.Second))
		must(t, got.err)
		if len(got.page.Events) > 0 || got.page.More || got.took != 30*time.Second || got.page.Waited != got.took {
			t.Errorf("%+v after %s, want an empty page after 30s", got.page, got.took)
		}
		// 30 s have 25 pauses of 1.2 s, and 37.5 of 0.8 s.
		if store.looks < 26 || store.looks > 39 {
			t.Errorf("it looked %d times in 30s, want once a second", store.looks)
		}
		store.add(7)
		next, err := feed.Read(t.Context(), newCaller(), journal.Request{After: got.page.Next, Limit: 10})
		must(t, err)
		if len(next.Events) != 1 {
			t.Errorf("%d events follow, want 1", len(next.Events))
		}
	})
}

func TestRead_WaitsNoLongerThanTheInstallationAllows(t *testing.T) {
	t.Parallel()
	for _, allowed := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			feed, err := journal.NewFeed(journal.Config{Waiting: 1, MaxWait: allowed}, newMemory(), nil)
			must(t, err)
			if got := <-begin(t.Context(), feed, newCaller(), waitFor(time.Minute)); got.err != nil || got.took != allowed {
				t.Errorf("%v after %s, want an empty page after %s", got.err, got.took, allowed)
			}
		})
	}
}

func TestRead_RejectsAWaitThatIsOneTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		feed, p := newFeed(t, newMemory()), newCaller()
		ctx, leave := context.WithCancel(t.Context())
		first, second := begin(ctx, feed, p, waitFor(time.Minute)), begin(t.Context(), feed, p, waitFor(time.Minute))
		synctest.Wait()
		_, err := feed.Read(t.Context(), p, waitFor(time.Minute))
		if !fault.Is(err, fault.Busy) || fault.From(err).RetryAfter <= 0 {
			t.Errorf("a third one: %v, want Busy with RetryAfter", err)
		}
		_, err = feed.Read(t.Context(), p, waitFor(0))
		must(t, err) // that does not wait
		other := begin(t.Context(), feed, newCaller(), waitFor(time.Second))
		must(t, (<-other).err)
		leave()
		if got := <-first; !errors.Is(got.err, context.Canceled) || got.page.Waited != got.took {
			t.Errorf("the client left: %v after %s of %s", got.err, got.page.Waited, got.took)
		}
		must(t, (<-begin(t.Context(), feed, p, waitFor(time.Second))).err) // in its place
		must(t, (<-second).err)
	})
}

func TestDrain_EndsAllWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.add(1)
		feed := newFeed(t, store)
		last, err := feed.Read(t.Context(), newCaller(), journal.Request{Limit: 10})
		must(t, err)
		running := begin(t.Context(), feed, newCaller(), journal.Request{After: last.Next, Limit: 10, Wait: time.Minute})
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the clock of synctest
		feed.Drain()
		feed.Drain()
		got := <-running
		must(t, got.err)
		if len(got.page.Events) > 0 || got.page.More || got.page.Next != last.Next || got.took != 100*time.Millisecond {
			t.Errorf("%+v after %s, want an empty page with the cursor of the request at once", got.page, got.took)
		}
		if later := <-begin(t.Context(), feed, newCaller(), waitFor(time.Minute)); later.err != nil || later.took != 0 {
			t.Errorf("a request after that: %v after %s", later.err, later.took)
		}
		store.add(2)
		next, err := newFeed(t, store).Read(t.Context(), newCaller(), journal.Request{After: got.page.Next, Limit: 10})
		must(t, err)
		if len(next.Events) != 1 || next.Events[0].ID != 2 {
			t.Errorf("another process reads on with %+v", next.Events)
		}
	})
}

func TestRead_EndsItsWaitWhenTheJournalChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*journal.State)
		want   fault.Kind
	}{
		"it is switched off":       {func(s *journal.State) { s.Retention = 0 }, fault.Conflict},
		"the database is restored": {func(s *journal.State) { s.Epoch++ }, fault.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				done := begin(t.Context(), newFeed(t, store), newCaller(), waitFor(time.Minute))
				synctest.Wait()
				store.change(c.change)
				if got := <-done; !fault.Is(got.err, c.want) || got.took > 1200*time.Millisecond {
					t.Errorf("%v after %s, want %s", got.err, got.took, c.want)
				}
			})
		})
	}
}

// A read that has stopped among events of others says so at once: a client that waits would miss what comes after them.
func TestRead_DoesNotWaitWhereThereMayBeMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.stops = true
		feed := newFeed(t, store)
		got := <-begin(t.Context(), feed, newCaller(), journal.Request{Limit: 10, Wait: time.Minute})
		if got.err != nil || !got.page.More || got.took != 0 {
			t.Fatalf("%+v, %v after %s, want more at once", got.page, got.err, got.took)
		}
		_, err := feed.Read(t.Context(), newCaller(), journal.Request{After: got.page.Next, Limit: 10})
		must(t, err)
		if after := store.queries[1].After; after.Transaction != 1 || after.ID != 1 {
			t.Errorf("the next read is after %+v, want where the first one stopped", after)
		}
	})
}

// A transaction of an administrator can keep the oldest one back for days: events of the time before the last look appear once it ends. A
// time that moves with each look would leave them out.
func TestRead_FindsEventsThatWereHiddenForDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.state.Retention = 30 * 24 * time.Hour
		feed, p := newFeed(t, store), newCaller()
		store.add(1)
		page, err := feed.Read(t.Context(), p, journal.Request{Limit: 10})
		must(t, err)
		store.add(2)
		store.change(func(s *journal.State) { s.Oldest-- }) // as it still runs
		for range 5 {
			time.Sleep(24 * time.Hour) //nolint:forbidigo // the clock of synctest
			page, err = feed.Read(t.Context(), p, journal.Request{After: page.Next, Limit: 10})
			must(t, err)
			if len(page.Events) > 0 {
				t.Fatal("an event is shown before the transactions before it have ended")
			}
		}
		store.change(func(s *journal.State) { s.Oldest++ })
		page, err = feed.Read(t.Context(), p, journal.Request{After: page.Next, Limit: 10})
		must(t, err)
		if len(page.Events) != 1 || page.Events[0].ID != 2 {
			t.Errorf("%+v, want the event that was hidden", page.Events)
		}
		since := store.queries[len(store.queries)-1].Since
		if want := store.events[0].At.Add(-24 * time.Hour); !since.Equal(want) {
			t.Errorf("events since %s are read, want a day before the last one that was read, %s", since, want)
		}
	})
}

func TestRead_RejectsACursorWhoseEventsHaveExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		feed, p := newFeed(t, store), newCaller()
		read := func(after string, limit int) (journal.Page, error) {
			return feed.Read(t.Context(), p, journal.Request{After: after, Limit: limit})
		}
		store.add(1)
		store.add(2)
		part, err := read("", 1)
		must(t, err)
		whole, err := read("", 10)
		must(t, err)
		time.Sleep(20 * time.Hour) //nolint:forbidigo // the clock of synctest
		seen, err := read(whole.Next, 10)
		must(t, err)
		time.Sleep(5 * time.Hour) //nolint:forbidigo // the clock of synctest
		for name, cursor := range map[string]string{"a cursor after an event": part.Next, "a cursor of the end": whole.Next} {
			if _, err := read(cursor, 10); !fault.Is(err, fault.Gone) || !strings.Contains(fault.From(err).Public, "have expired") || !strings.Contains(fault.From(err).Public, "after=now") {
				t.Errorf("%s: %v, want Gone that says what to do", name, err)
			}
		}
		_, err = read(seen.Next, 10) // nothing came until 5 hours ago
		must(t, err)
		_, err = read("", 10)
		must(t, err)
	})
}

func TestRead_RejectsACursorOfBeforeARestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		feed, p := newFeed(t, store), newCaller()
		store.add(1)
		store.add(2)
		former, err := feed.Read(t.Context(), p, journal.Request{Limit: 10})
		must(t, err)
		store.change(func(s *journal.State) { s.Epoch = 2 })
		_, err = feed.Read(t.Context(), p, journal.Request{After: former.Next, Limit: 10})
		if !fault.Is(err, fault.Gone) || !strings.Contains(fault.From(err).Public, "was restored") || !strings.Contains(fault.From(err).Public, "after=now") {
			t.Errorf("%v, want Gone that says what to do", err)
		}
		// A reader that begins after the restore reads the events of before it, with cursors among them.
		var ids []int64
		for after := ""; ; {
			page, err := feed.Read(t.Context(), p, journal.Request{After: after, Limit: 1})
			must(t, err)
			for _, event := range page.Events {
				ids = append(ids, event.ID)
			}
			if after = page.Next; !page.More {
				break
			}
		}
		if !slices.Equal(ids, []int64{1, 2}) {
			t.Errorf("it reads %v, want 1 and 2", ids)
		}
	})
}

func TestRead_RejectsMalformedRequests(t *testing.T) {
	t.Parallel()
	store := newMemory()
	feed := newFeed(t, store)
	page, err := feed.Read(t.Context(), newCaller(), journal.Request{After: journal.AfterNow, Limit: 1})
	must(t, err)
	changed := func(at int, bits byte) string {
		raw, err := base64.RawURLEncoding.DecodeString(page.Next)
		must(t, err)
		raw[at] ^= bits
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	for name, c := range map[string]struct {
		request journal.Request
		says    string
	}{
		"a short cursor":              {journal.Request{After: page.Next[1:], Limit: 1}, "after must be"},
		"a long cursor":               {journal.Request{After: page.Next + "A", Limit: 1}, "after must be"},
		"another alphabet":            {journal.Request{After: "+" + page.Next[1:], Limit: 1}, "after must be"},
		"another version":             {journal.Request{After: changed(0, 2), Limit: 1}, "after must be"},
		"a negative epoch":            {journal.Request{After: changed(1, 0x80), Limit: 1}, "after must be"},
		"an epoch after its own":      {journal.Request{After: changed(9, 0x40), Limit: 1}, "after must be"},
		"a negative transaction":      {journal.Request{After: changed(17, 0x80), Limit: 1}, "after must be"},
		"a negative id":               {journal.Request{After: changed(25, 0x80), Limit: 1}, "after must be"},
		"a time out of bounds":        {journal.Request{After: changed(33, 0x7f), Limit: 1}, "after must be"},
		"a second time out of bounds": {journal.Request{After: changed(41, 0x7f), Limit: 1}, "after must be"},
		"a word":                      {journal.Request{After: "NOW", Limit: 1}, "after must be"},
		"an unknown type":             {journal.Request{Types: []journal.Type{"media.sealed", "media.moved"}, Limit: 1}, `no event type "media.moved"; the types are media.uploaded, media.sealed`},
		"no limit":                    {journal.Request{}, "limit must be from 1 to 1000"},
		"a large limit":               {journal.Request{Limit: 1001}, "limit must be from 1 to 1000"},
		"a negative wait":             {journal.Request{Limit: 1, Wait: -1}, "wait must be from 0 to 60"},
		"a long wait":                 {journal.Request{Limit: 1, Wait: time.Minute + 1}, "wait must be from 0 to 60"},
	} {
		if _, err := feed.Read(t.Context(), newCaller(), c.request); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.From(err).Public, c.says) {
			t.Errorf("%s: %v, want Invalid with %q", name, err, c.says)
		}
	}
	// The last character has bits that no byte has: only one text is the cursor.
	other := page.Next[:len(page.Next)-1] + string(page.Next[len(page.Next)-1]+1)
	if _, err := feed.Read(t.Context(), newCaller(), journal.Request{After: other, Limit: 1}); len(page.Next)%4 != 0 && !fault.Is(err, fault.Invalid) {
		t.Errorf("another text of the same cursor: %v", err)
	}
	_, err = feed.Read(t.Context(), newCaller(), journal.Request{After: page.Next, Limit: journal.MaxLimit})
	must(t, err)
}

func FuzzRead_AcceptsAnyCursor(f *testing.F) {
	store := newMemory()
	feed, err := journal.NewFeed(journal.Config{Waiting: 1}, store, nil)
	if err != nil {
		f.Fatal(err)
	}
	page, err := feed.Read(f.Context(), newCaller(), journal.Request{Limit: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page.Next)
	f.Add("now")
	f.Fuzz(func(t *testing.T, after string) {
		_, err := feed.Read(t.Context(), newCaller(), journal.Request{After: after, Limit: 1})
		if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Gone) {
			t.Fatal(err)
		}
		// What PostgreSQL gets is in its range.
		last := store.queries[len(store.queries)-1]
		store.queries = store.queries[len(store.queries)-1:]
		if last.Since.Year() > 9999 || min(last.After.Epoch, last.After.Transaction, last.After.ID) < 0 {
			t.Fatalf("%+v is read", last)
		}
	})
}

func TestConfig_IsValidated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config journal.Config
		says   string
	}{
		{journal.Config{Waiting: 1}, ""},
		{journal.Config{Waiting: 1000, MaxWait: time.Minute}, ""},
		{journal.Config{Waiting: 0}, "SERVICE_EVENTS_WAITING"},
		{journal.Config{Waiting: 1001}, "SERVICE_EVENTS_WAITING"},
		{journal.Config{Waiting: 1, MaxWait: -1}, "SERVICE_EVENTS_MAX_WAIT"},
		{journal.Config{Waiting: 1, MaxWait: time.Minute + 1}, "SERVICE_EVENTS_MAX_WAIT"},
	} {
		if _, err := journal.NewFeed(c.config, newMemory(), nil); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.says)
		}
	}
}

// The events of the account are for the credentials of its Default App.
func TestRead_AsksForTheEventsOfItsAppOnly(t *testing.T) {
	t.Parallel()
	store := newMemory()
	feed, p := newFeed(t, store), newCaller()
	for _, name := range []string{account.DefaultApp, "blog"} {
		p.App.Name = name
		_, err := feed.Read(t.Context(), p, journal.Request{Limit: 5, Types: []journal.Type{journal.KeyIssued}})
		must(t, err)
		q := store.queries[len(store.queries)-1]
		if q.AccountID != p.Account.ID || q.AppID != p.App.ID || q.OfAccount != (name == account.DefaultApp) || q.Limit != 5 || !slices.Equal(q.Types, []journal.Type{journal.KeyIssued}) || q.Examined != 10_000 {
			t.Errorf("the app %s: %+v", name, q)
		}
	}
	if after := store.queries[0].After; after != (journal.Position{}) {
		t.Errorf("the first read is after %+v, want the beginning", after)
	}
	page, err := feed.Read(t.Context(), p, journal.Request{After: journal.AfterNow, Limit: 5})
	must(t, err)
	_, err = feed.Read(t.Context(), p, journal.Request{After: page.Next, Limit: 5})
	must(t, err)
	if after := store.queries[len(store.queries)-1].After; after.Transaction != 99 || after.ID != math.MaxInt64 {
		t.Errorf("the end is %+v, want all of transaction 99", after)
	}
}
