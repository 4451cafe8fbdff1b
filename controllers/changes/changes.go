// Package changes finds the accounts that changed in PostgreSQL, whichever client changed them, and requests
// reconciles of their MediaAccounts and MediaSettings. PostgreSQL's notifications name the accounts; a
// periodic comparison of all, with one statement, finds what they missed. The operator's manager runs
// the Watcher while it leads.
package changes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

const (
	// minPause is the pause after each look: it bounds the statements for many notifications.
	minPause = 250 * time.Millisecond
	// maxNamed is the number of accounts above which all are compared instead.
	maxNamed = 5000
	// retryPause is the pause after a comparison that failed.
	retryPause = time.Second
	// lookTimeout bounds one look.
	lookTimeout = 30 * time.Second
)

// Source delivers the changes of accounts; Package postgres implements it.
type Source interface {
	// Listen runs until ctx ends. onConnect is called when changes are delivered from then on, onChange
	// for every change of an account, and onLost when changes are missed.
	Listen(ctx context.Context, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error
}

// Accounts reads the versions of accounts; account.Registry implements it.
type Accounts interface {
	Versions(ctx context.Context, ids []uuid.UUID) ([]account.Version, error)
	EachVersion(ctx context.Context, namespaces []string, visit func(account.Version)) error
}

// Objects are the reconciles that a Watcher requests.
type Objects interface {
	// RequestAccount requests a reconcile of a MediaAccount whose account has this version (0 = it is
	// not open any more), and RequestSettings of its MediaSettings, unless the status shows the version.
	// They report false while a reconcile is under way, whose end decides that: ask again then.
	RequestAccount(ctx context.Context, priority int, key types.NamespacedName, version int64) bool
	RequestSettings(ctx context.Context, priority int, key types.NamespacedName, version int64) bool
	// RequestAll requests a reconcile of every object that depends on the source.
	RequestAll(ctx context.Context, source reconcile.Source)
}

// Config configures a Watcher.
type Config struct {
	// Interval is the interval between two comparisons of all accounts.
	Interval time.Duration
	// Namespaces are those that the operator watches; all if empty.
	Namespaces []string
}

// Deps are the parts that a Watcher uses.
type Deps struct {
	Source   Source
	Accounts Accounts
	Objects  Objects
	Gate     *reconcile.Gate
	Outages  *reconcile.Outages
	Log      *slog.Logger
}

// Watcher requests reconciles of what changed. What it knows is in memory: the first comparison after
// a start requests every object.
type Watcher struct {
	config Config
	deps   Deps
	known  map[uuid.UUID]seen // the versions for which a reconcile was requested; only Start uses it
	denied bool               // the database rejected the last look, which every object has to show

	mu      sync.Mutex
	named   map[uuid.UUID]bool // accounts of notifications
	missed  bool               // notifications may be missing: all are compared
	arrived chan struct{}
}

// seen is what was seen of an account last.
type seen struct {
	key               types.NamespacedName
	account, settings int64
	pass              uint64 // the comparison of all that saw it
}

// New returns a Watcher.
func New(config Config, deps Deps) *Watcher {
	return &Watcher{config: config, deps: deps, known: map[uuid.UUID]seen{}, named: map[uuid.UUID]bool{}, missed: true, arrived: make(chan struct{}, 1)}
}

// Start watches until ctx ends. It implements manager.Runnable.
func (w *Watcher) Start(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { w.listen(ctx) })
	w.watch(ctx)
	return nil
}

// listen takes notifications until ctx ends.
func (w *Watcher) listen(ctx context.Context) {
	connected := false
	err := w.deps.Source.Listen(ctx, func() {
		connected = true
		w.notice(uuid.Nil, true)
	}, func(id uuid.UUID) {
		w.notice(id, false)
	}, func(cause error) {
		if connected { // once, not for every attempt to reconnect
			w.deps.Log.WarnContext(ctx, "the notifications of changed accounts are interrupted: changes are found by comparison", "error", cause)
		}
		connected = false
	})
	if err != nil && ctx.Err() == nil {
		w.deps.Log.ErrorContext(ctx, "cannot listen for changed accounts", "error", err)
	}
}

// notice records an account that changed, or that any may have.
func (w *Watcher) notice(id uuid.UUID, all bool) {
	w.mu.Lock()
	if w.missed = w.missed || all || len(w.named) >= maxNamed; !all && !w.missed {
		w.named[id] = true
	}
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// taken returns what was noticed since the last call.
func (w *Watcher) taken() (ids []uuid.UUID, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.named {
		ids = append(ids, id)
	}
	all, w.missed = w.missed, false
	clear(w.named)
	return ids, all
}

// watch looks at what was noticed, and periodically at all accounts.
func (w *Watcher) watch(ctx context.Context) {
	next := time.NewTimer(0) // of the comparison of all
	defer next.Stop()
	outages := time.NewTicker(time.Second)
	defer outages.Stop()
	pass := uint64(0)
	for {
		full := false
		select {
		case <-ctx.Done():
			return
		case <-outages.C:
			w.tellOutages(ctx)
			continue
		case <-next.C:
			full = true
		case <-w.arrived:
		}
		if w.deps.Gate.Wait(ctx) != nil {
			return
		}
		ids, missed := w.taken()
		var err error
		if full = full || missed; full {
			pass++
			err = w.compareAll(ctx, pass)
		} else {
			err = w.compare(ctx, ids)
		}
		switch {
		case err != nil:
			w.notice(uuid.Nil, true)
			next.Reset(retryPause)
		case full:
			next.Reset(w.config.Interval)
		}
		pause(ctx, err)
	}
}

// pause waits between two looks.
func pause(ctx context.Context, failed error) {
	wait := minPause
	if failed != nil {
		wait = retryPause
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tellOutages requests a reconcile of every object whose status has to show an outage from now on.
func (w *Watcher) tellOutages(ctx context.Context) {
	for _, source := range w.deps.Outages.Due() {
		w.deps.Objects.RequestAll(ctx, source)
	}
}

// compareAll compares all accounts. An account that is gone was closed: its object is requested, too.
func (w *Watcher) compareAll(ctx context.Context, pass uint64) error {
	return w.look(ctx, func(ctx context.Context) error {
		err := w.deps.Accounts.EachVersion(ctx, w.config.Namespaces, func(version account.Version) { w.see(ctx, version, pass) })
		if err != nil {
			return err
		}
		for id, last := range w.known {
			if last.pass != pass {
				w.lose(ctx, id, last)
			}
		}
		return nil
	})
}

// compare compares the accounts with these ids.
func (w *Watcher) compare(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	return w.look(ctx, func(ctx context.Context) error {
		versions, err := w.deps.Accounts.Versions(ctx, ids)
		if err != nil {
			return err
		}
		found := make(map[uuid.UUID]bool, len(versions))
		for _, version := range versions {
			found[version.ID] = true
			w.see(ctx, version, w.known[version.ID].pass)
		}
		for _, id := range ids {
			if last, known := w.known[id]; known && !found[id] {
				w.lose(ctx, id, last)
			}
		}
		return nil
	})
}

// look calls the database, and records whether it responded.
func (w *Watcher) look(ctx context.Context, read func(context.Context) error) error {
	if failure := w.deps.Outages.Admit(reconcile.Database); failure != nil {
		return failure.Err
	}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := read(looking)
	failure := reconcile.NewError(reconcile.Database, err)
	w.deps.Outages.Called(ctx, reconcile.Database, failure)
	if denied := failure.Stalls(); denied != w.denied && (denied || err == nil) {
		w.denied = denied
		w.deps.Objects.RequestAll(ctx, reconcile.Database)
	}
	return err
}

// see requests the reconciles of what changed in an account, and notices the account again while one is
// under way: it may be the one that made the change.
func (w *Watcher) see(ctx context.Context, version account.Version, pass uint64) {
	last, known := w.known[version.ID]
	next := seen{key: types.NamespacedName{Namespace: version.Namespace, Name: version.Name}, account: version.Account, settings: version.Settings, pass: pass}
	priority := reconcile.PriorityChange
	if !known { // the first look, or an account that a reconcile has just made
		priority = reconcile.PriorityRepeat
	}
	asked := true
	if (!known || last.account != version.Account) && !w.deps.Objects.RequestAccount(ctx, priority, next.key, version.Account) {
		next.account, asked = last.account, false
	}
	if (!known || last.settings != version.Settings) && !w.deps.Objects.RequestSettings(ctx, priority, next.key, version.Settings) {
		next.settings, asked = last.settings, false
	}
	if !asked {
		w.notice(version.ID, false)
	}
	if asked || known {
		w.known[version.ID] = next
	}
}

// lose forgets an account that is not open any more.
func (w *Watcher) lose(ctx context.Context, id uuid.UUID, last seen) {
	if w.deps.Objects.RequestAccount(ctx, reconcile.PriorityChange, last.key, 0) {
		delete(w.known, id)
		return
	}
	w.notice(id, false)
}
