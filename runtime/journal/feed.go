package journal

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

// Config bounds the requests that wait for events. The tags are flag and environment names.
type Config struct {
	Waiting int           `name:"events-waiting" env:"SERVICE_EVENTS_WAITING" default:"8" help:"Requests of one account that may wait for events (GET /events) in a process at once, from 1 to 1000. More are rejected with 429."`
	MaxWait time.Duration `name:"events-max-wait" env:"SERVICE_EVENTS_MAX_WAIT" default:"30s" help:"How long a request waits for events at most, from 0s to 60s. It must be shorter than the timeout of proxies. Requests that ask for more wait so long."`
}

// Bounds of a Request.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
	// MaxWait is what a request may ask for. Config.MaxWait may be shorter.
	MaxWait = time.Minute
)

// maxWaiting bounds Config.Waiting.
const maxWaiting = 1000

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.Waiting < 1 || c.Waiting > maxWaiting:
		return fmt.Errorf("SERVICE_EVENTS_WAITING must be from 1 to %d, not %d", maxWaiting, c.Waiting)
	case c.MaxWait < 0 || c.MaxWait > MaxWait:
		return fmt.Errorf("SERVICE_EVENTS_MAX_WAIT must be from 0s to %s, not %s", MaxWait, c.MaxWait)
	}
	return nil
}

const (
	// examined bounds the events of other apps and types that one read looks at.
	examined = 10_000
	// maxTransaction is longer than a transaction that writes events lasts: an event is not older than one that is read before it, by
	// more than that.
	maxTransaction = 24 * time.Hour
	// A request that waits looks for events after a time from minPause to maxPause, so those that began together do not stay together.
	minPause = 800 * time.Millisecond
	maxPause = 1200 * time.Millisecond
	// retryWaiting is when a request may wait that is one too many.
	retryWaiting = 5 * time.Second
)

// AfterNow is the Request.After that is the end of the journal.
const AfterNow = "now"

// Request says which events are read.
type Request struct {
	// After is the Page.Next of the read before; empty = the oldest event that can be read is the first, AfterNow = only events that come
	// from now on.
	After string
	// Types are those of the events; none = all.
	Types []Type
	// Limit is how many events are returned at most, from 1 to MaxLimit.
	Limit int
	// Wait is how long to wait for an event if there is none, from 0 to MaxWait.
	Wait time.Duration
}

func (q Request) validate() error {
	switch {
	case q.Limit < 1 || q.Limit > MaxLimit:
		return fault.New(fault.Invalid, "limit must be from 1 to %d", MaxLimit)
	case q.Wait < 0 || q.Wait > MaxWait:
		return fault.New(fault.Invalid, "wait must be from 0 to %d seconds", int(MaxWait.Seconds()))
	}
	return checkTypes(q.Types)
}

func typeNames() string {
	names := make([]string, len(Types()))
	for i, kind := range Types() {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}

// Page is what a read has found.
type Page struct {
	Events []Event
	// Next is the Request.After of the next read.
	Next string
	// More reports whether there are more events already, perhaps.
	More bool
	// Waited is how long the read has waited for events, also if it failed then.
	Waited time.Duration
}

// Feed reads the events of an account, each once. It is safe for concurrent use.
type Feed struct {
	store   Store
	cfg     Config
	waiting *fairlimit.Limiter[uuid.UUID]
	drained chan struct{}
	drain   func()
}

// NewFeed returns a Feed of a store. registry takes the metrics; nil = none are registered.
func NewFeed(cfg Config, store Store, registry prometheus.Registerer) (*Feed, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Feed{store: store, cfg: cfg, drained: make(chan struct{})}
	f.waiting = fairlimit.New[uuid.UUID](fairlimit.Config{Limit: fairlimit.Unlimited, PerKey: cfg.Waiting})
	f.drain = sync.OnceFunc(func() { close(f.drained) })
	if registry == nil {
		return f, nil
	}
	return f, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediastack_events_waiting", Help: "Requests that wait for events, which are among those in progress.",
	}, func() float64 { return float64(f.waiting.InFlight()) }))
}

// Drain ends the waits of all requests, now and from now on: they return what they have found, nothing. The caller goes on at another
// process.
func (f *Feed) Drain() { f.drain() }

var (
	errNoJournal = fault.New(fault.Conflict, "the account has no journal: spec.journal of the MediaAccount switches it on")
	errRestored  = fault.New(fault.Gone, "the database was restored, or another cluster took over, and events may be missing: get a new cursor with after=now, list the media again, then follow from the cursor")
	errExpired   = fault.New(fault.Gone, "events after the cursor have expired: get a new cursor with after=now, list the media again, then follow from the cursor")
)

// Read returns the events of the principal's app after a place, in their order. The credentials of the Default App see the events of the
// account, too. Without events it waits for them if the request says so, and returns an empty page if none comes. Conflict if the account
// has no journal; Gone if events are missing after the cursor; Busy if too many requests of the account wait.
func (f *Feed) Read(ctx context.Context, p account.Principal, q Request) (Page, error) {
	if err := q.validate(); err != nil {
		return Page{}, err
	}
	at, err := parseCursor(q.After)
	if err != nil {
		return Page{}, err
	}
	page, at, err := f.look(ctx, p, q, at)
	wait := min(q.Wait, f.cfg.MaxWait)
	if err != nil || len(page.Events) > 0 || page.More || wait == 0 {
		return page, err
	}
	if f.waiting.TryAcquire(p.Account.ID) != nil {
		return Page{}, &fault.Error{Kind: fault.Busy, Public: fmt.Sprintf("%d requests of the account wait for events already, at most so many may", f.cfg.Waiting), RetryAfter: retryWaiting}
	}
	defer f.waiting.Release(p.Account.ID)
	return f.wait(ctx, p, q, page, at, time.Now().Add(wait))
}

// wait looks for events again and again until there is one, or until the time is over. page is what the look before has found.
func (f *Feed) wait(ctx context.Context, p account.Principal, q Request, page Page, at cursor, until time.Time) (found Page, err error) {
	began := time.Now()
	defer func() { found.Waited = time.Since(began) }()
	for {
		left := time.Until(until)
		if left <= 0 {
			return page, nil
		}
		pause := time.NewTimer(min(left, minPause+rand.N(maxPause-minPause)))
		select {
		case <-pause.C:
		case <-f.drained:
			pause.Stop()
			return page, nil
		case <-ctx.Done():
			pause.Stop()
			return Page{}, ctx.Err()
		}
		if page, at, err = f.look(ctx, p, q, at); err != nil || len(page.Events) > 0 || page.More {
			return page, err
		}
	}
}

// look reads the events that are there, and returns the cursor of the next look.
func (f *Feed) look(ctx context.Context, p account.Principal, q Request, at cursor) (Page, cursor, error) {
	// The state comes first: all events of transactions before state.Oldest are visible to the statements after it.
	state, err := f.store.JournalState(ctx, p.Account.ID)
	if err != nil {
		return Page{}, cursor{}, err
	}
	oldest := state.Now.Add(-state.Retention)
	switch {
	case state.Retention == 0:
		return Page{}, cursor{}, errNoJournal
	case at == nowCursor:
		next := cursor{}.end(state)
		return Page{Next: next.text()}, next, nil
	case at == cursor{}:
	case at.installation != state.Epoch:
		return Page{}, cursor{}, errRestored
	case time.Unix(at.seen, 0).Before(oldest.Truncate(time.Second)):
		return Page{}, cursor{}, errExpired
	}
	since := oldest
	if read := time.UnixMicro(at.read).Add(-maxTransaction); read.After(since) {
		since = read
	}
	found, err := f.store.Events(ctx, Query{AccountID: p.Account.ID, AppID: p.App.ID, OfAccount: p.App.Name == account.DefaultApp, Types: q.Types,
		After: Position{Epoch: at.epoch, Transaction: at.transaction, ID: at.id}, Since: since,
		Epoch: state.Epoch, Oldest: state.Oldest, Limit: q.Limit, Examined: examined})
	if err != nil {
		return Page{}, cursor{}, err
	}
	page := Page{Events: found.Events}
	if n := len(found.Events); n > 0 {
		at = after(found.Events[n-1].Position, state)
	}
	switch {
	case len(found.Events) == q.Limit:
		page.More = true
	case found.Stopped != nil:
		at, page.More = after(*found.Stopped, state), true
	default:
		at = at.end(state)
	}
	page.Next = at.text()
	return page, at, nil
}

// after returns the cursor after an event.
func after(event Position, state State) cursor {
	return cursor{installation: state.Epoch, epoch: event.Epoch, transaction: event.Transaction, id: event.ID, read: event.At.UnixMicro(), seen: event.At.Unix()}
}

// end returns the cursor after all events that are visible. It keeps the time of the last event that was read: a transaction of another
// program in the database can keep state.Oldest back for long, and events that are older than now appear once it ends.
func (c cursor) end(state State) cursor {
	return cursor{installation: state.Epoch, epoch: state.Epoch, transaction: state.Oldest - 1, id: math.MaxInt64, read: c.read, seen: state.Now.Unix()}
}
