package changes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// accounts are the versions in the database, and count the statements.
type accounts struct {
	rows              map[uuid.UUID]account.Version
	err               error
	all, single, last int // statements; last = ids of the last one
}

// Versions implements Accounts.
func (a *accounts) Versions(_ context.Context, ids []uuid.UUID) (found []account.Version, err error) {
	a.single, a.last = a.single+1, len(ids)
	for _, id := range ids {
		if row, ok := a.rows[id]; ok {
			found = append(found, row)
		}
	}
	return found, a.err
}

// EachVersion implements Accounts.
func (a *accounts) EachVersion(_ context.Context, _ []string, visit func(account.Version)) error {
	a.all++
	for _, row := range a.rows {
		visit(row)
	}
	return a.err
}

// requests records the requested reconciles, and their priorities.
type requests struct {
	accounts, settings map[string]int
	all                int
	running            map[string]bool  // objects of which a reconcile is under way
	shown              map[string]int64 // versions that the status shows
}

// ask records a request, as the controllers do.
func (r *requests) ask(of map[string]int, priority int, name string, version int64) bool {
	if !r.running[name] && r.shown[name] != version {
		of[name] = priority
	}
	return !r.running[name]
}

// RequestAccount implements Objects.
func (r *requests) RequestAccount(_ context.Context, priority int, key types.NamespacedName, version int64) bool {
	return r.ask(r.accounts, priority, key.Name, cmp.Or(version, -1))
}

// RequestSettings implements Objects.
func (r *requests) RequestSettings(_ context.Context, priority int, key types.NamespacedName, version int64) bool {
	return r.ask(r.settings, priority, key.Name, version)
}

// RequestAll implements Objects.
func (r *requests) RequestAll(context.Context, reconcile.Source) { r.all++ }

type fixture struct {
	*Watcher
	t        *testing.T
	database *accounts
	requests *requests
	pass     uint64
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, database: &accounts{rows: map[uuid.UUID]account.Version{}}, requests: &requests{}}
	outages := reconcile.NewOutages(0, time.Now, slog.New(slog.DiscardHandler))
	f.Watcher = New(Config{}, Deps{Accounts: f.database, Objects: f.requests, Outages: outages, Log: slog.New(slog.DiscardHandler)})
	return f
}

// add adds an account.
func (f *fixture) add(name string) uuid.UUID {
	id := uuid.New()
	f.database.rows[id] = account.Version{ID: id, Namespace: "team", Name: name, Account: 1, Settings: 1}
	return id
}

// change changes an account.
func (f *fixture) change(id uuid.UUID, change func(*account.Version)) {
	row := f.database.rows[id]
	change(&row)
	f.database.rows[id] = row
}

// wants looks, at the ids or at all, and compares the requests.
func (f *fixture) wants(accounts, settings map[string]int, ids ...uuid.UUID) {
	f.t.Helper()
	f.requests.accounts, f.requests.settings = map[string]int{}, map[string]int{}
	var err error
	if f.pass++; len(ids) > 0 {
		err = f.compare(f.t.Context(), ids)
	} else {
		err = f.compareAll(f.t.Context(), f.pass)
	}
	if err != nil || !maps.Equal(f.requests.accounts, accounts) || !maps.Equal(f.requests.settings, settings) {
		f.t.Errorf("requests are %v and %v, want %v and %v; %v", f.requests.accounts, f.requests.settings, accounts, settings, err)
	}
}

func TestWatcher_RequestsWhatChangedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.add("a"), f.add("b")
	const first, changed = reconcile.PriorityRepeat, reconcile.PriorityChange
	none := map[string]int{}
	f.wants(map[string]int{"a": first, "b": first}, map[string]int{"a": first, "b": first})
	f.wants(none, none)
	f.change(a, func(v *account.Version) { v.Account++ })
	f.wants(map[string]int{"a": changed}, none, a, b)
	f.wants(none, none)
	f.change(b, func(v *account.Version) { v.Settings++ })
	f.wants(none, map[string]int{"b": changed})
	f.wants(none, none, b)
	c := f.add("c")
	f.wants(map[string]int{"c": first}, map[string]int{"c": first}, c)
	delete(f.database.rows, a)
	delete(f.database.rows, b)
	f.wants(map[string]int{"a": changed}, none, a)
	f.wants(map[string]int{"b": changed}, none)
	if f.wants(none, none); len(f.known) != 1 {
		t.Errorf("%d accounts are remembered", len(f.known))
	}
}

// Every write of the operator once caused another reconcile of the account and of its MediaSettings.
func TestWatcher_DoesNotRequestWhatTheStatusShows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const first, changed = reconcile.PriorityRepeat, reconcile.PriorityChange
	none := map[string]int{}
	again := func(want ...uuid.UUID) {
		t.Helper()
		if ids, _ := f.taken(); !slices.Equal(ids, want) {
			t.Errorf("%v are looked at again, want %v", ids, want)
		}
	}
	f.taken()
	a := f.add("a")
	f.requests.running = map[string]bool{"a": true}
	f.wants(none, none, a) // the reconcile that made the account is under way
	again(a)
	f.requests.running, f.requests.shown = nil, map[string]int64{"a": 1}
	f.wants(none, none, a)
	again()
	f.change(a, func(v *account.Version) { v.Account++ })
	f.requests.running = map[string]bool{"a": true}
	f.wants(none, none, a)
	again(a)
	f.requests.running = nil
	f.wants(map[string]int{"a": changed}, none, a) // the change was another client's
	again()
	delete(f.database.rows, a)
	f.requests.running = map[string]bool{"a": true}
	f.wants(none, none, a)
	again(a)
	f.requests.running = nil
	f.wants(map[string]int{"a": changed}, none, a)
	b := f.add("b")
	f.wants(map[string]int{"b": first}, map[string]int{"b": first}, b)
}

func TestWatcher_ManyNotificationsAreFewStatements(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.taken()
	for range 3 {
		for range 100 {
			f.notice(uuid.New(), false)
		}
	}
	if ids, all := f.taken(); len(ids) != 300 || all {
		t.Errorf("%d accounts are compared, all: %t", len(ids), all)
	}
	for range maxNamed + 10 {
		f.notice(uuid.New(), false)
	}
	if ids, all := f.taken(); len(ids) > maxNamed || !all {
		t.Errorf("%d accounts are compared, all: %t", len(ids), all)
	}
	f.notice(uuid.Nil, true)
	if _, all := f.taken(); !all {
		t.Error("after a reconnect not all are compared")
	}
}

func TestWatcher_ADatabaseThatRejectsIsShownByAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	look := func(err error, all int) {
		t.Helper()
		f.database.err = err
		if got := f.compareAll(t.Context(), 1); !errors.Is(got, err) {
			t.Errorf("the error is %v", got)
		}
		if f.requests.all != all {
			t.Errorf("after %v all were requested %d times, want %d", err, f.requests.all, all)
		}
	}
	f.requests.accounts, f.requests.settings = map[string]int{}, map[string]int{}
	rejected := fault.WithReason(fault.New(fault.Unavailable, "rejected"), fault.Credentials)
	look(nil, 0)
	look(rejected, 1)
	look(rejected, 1)
	look(nil, 2)
	look(nil, 2)
}
