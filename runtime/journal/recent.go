package journal

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// MaxRecent bounds the events of a RecentPage.
const MaxRecent = 100

// RecentQuery says which events are read, newest first.
type RecentQuery struct {
	AccountID uuid.UUID
	// AppID is the app of the events; zero = all.
	AppID uuid.UUID
	// OfAccount includes those of the account.
	OfAccount bool
	// ItemID is the item of the events; zero = all.
	ItemID uuid.UUID
	// Types are those of the events; none = all.
	Types []Type
	// Before is the position before which they are; zero = the end of the journal. Since is their time at the earliest.
	Before Position
	Since  time.Time
	// Limit is how many are returned at most, and Examined how many are looked at.
	Limit, Examined int
}

// NamedItem is an item of an event as it is now.
type NamedItem struct {
	AppID         uuid.UUID
	AppName, Name string
	// Draft is set until it is sealed, and Deleted once it is deleted.
	Draft, Deleted bool
}

// RecentRequest says which events of an account are shown.
type RecentRequest struct {
	// Before is the RecentPage.Older of the read before; empty = the newest event is the first.
	Before string
	// AllApps is set for the owners of the account, who see all of its apps.
	AllApps bool
	// ItemID is the item of the events; zero = all.
	ItemID uuid.UUID
	// Types are those of the events; none = all.
	Types []Type
	// Limit is how many events are returned at most, from 1 to MaxRecent.
	Limit int
}

// RecentPage is a part of the journal, newest first.
type RecentPage struct {
	Events []Event
	// Older is the RecentRequest.Before of the events before; empty = there are none. With a filter, they may be none of those that are
	// asked for.
	Older string
}

// Activity shows the newest events of an account to people, who ask who changed something, and when. They do not go on from a cursor, so
// nothing is lost to them when an event appears that is older than one that was shown: events are shown as soon as they are committed.
// Programs that may miss nothing use Feed. It is safe for concurrent use.
type Activity struct{ store Store }

// NewActivity returns an Activity of a store.
func NewActivity(store Store) *Activity { return &Activity{store} }

// Recent returns events of the principal's app, newest first, and for a principal of the Default App those of the account, too. It looks at
// a bounded number of events, so a page can have fewer than there are, or none, and an Older. Conflict if the account has no journal.
func (a *Activity) Recent(ctx context.Context, p account.Principal, q RecentRequest) (RecentPage, error) {
	if err := checkTypes(q.Types); err != nil {
		return RecentPage{}, err
	}
	if q.Limit < 1 || q.Limit > MaxRecent {
		return RecentPage{}, fault.New(fault.Invalid, "limit must be from 1 to %d", MaxRecent)
	}
	before, err := parsePosition(q.Before)
	if err != nil {
		return RecentPage{}, err
	}
	state, err := a.store.JournalState(ctx, p.Account.ID)
	if err != nil {
		return RecentPage{}, err
	}
	if state.Retention == 0 {
		return RecentPage{}, errNoJournal
	}
	query := RecentQuery{AccountID: p.Account.ID, AppID: p.App.ID, OfAccount: q.AllApps || p.App.Name == account.DefaultApp, ItemID: q.ItemID, Types: q.Types,
		Before: before, Since: state.Now.Add(-state.Retention), Limit: q.Limit + 1, Examined: examined}
	if q.AllApps {
		query.AppID = uuid.Nil
	}
	found, err := a.store.Recent(ctx, query)
	if err != nil {
		return RecentPage{}, err
	}
	page := RecentPage{Events: found.Events}
	switch {
	case len(found.Events) > q.Limit:
		page.Events = found.Events[:q.Limit]
		page.Older = positionText(page.Events[q.Limit-1].Position)
	case found.Stopped != nil:
		page.Older = positionText(*found.Stopped)
	}
	return page, nil
}

func checkTypes(types []Type) error {
	for _, kind := range types {
		if !kind.Known() {
			return fault.New(fault.Invalid, "there is no event type %.40q; the types are %s", string(kind), typeNames())
		}
	}
	return nil
}

// Items returns the items of events that are there, or can be restored.
func (a *Activity) Items(ctx context.Context, p account.Principal, events []Event) (map[uuid.UUID]NamedItem, error) {
	var ids []uuid.UUID
	seen := map[uuid.UUID]bool{uuid.Nil: true}
	for _, event := range events {
		if !seen[event.ItemID] {
			seen[event.ItemID] = true
			ids = append(ids, event.ItemID)
		}
	}
	if len(ids) == 0 {
		return map[uuid.UUID]NamedItem{}, nil
	}
	return a.store.NamedItems(ctx, p.Account.ID, ids)
}

// positionVersion begins the text of a position. It differs from that of a cursor of Feed.
const positionVersion = 101

func positionText(at Position) string {
	return encodeNumbers(positionVersion, at.Epoch, at.Transaction, at.ID)
}

var errPosition = fault.New(fault.Invalid, "the cursor must be that of a page before, or be omitted")

// parsePosition reads RecentRequest.Before. It is not signed: a forged one is another position in the journal of the
// caller. One of before a restore, or older than the retention, is valid: the events before it are those that are left.
func parsePosition(text string) (Position, error) {
	if text == "" {
		return Position{}, nil
	}
	var numbers [3]int64
	if !decodeNumbers(text, positionVersion, numbers[:]) {
		return Position{}, errPosition
	}
	at := Position{Epoch: numbers[0], Transaction: numbers[1], ID: numbers[2]}
	if at == (Position{}) {
		return Position{}, errPosition
	}
	return at, nil
}
