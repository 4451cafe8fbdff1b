package media

import (
	"context"
	"slices"
	"strings"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// Query requests a part of a list: of the sealed items, or of the drafts.
type Query struct {
	Search
	Order  Order
	Drafts bool
	// Page is the number of the page; 0 = none was sent. After is the cursor of the page before; empty = none.
	Page  int
	After string
	// Before is a cursor, too: the page ends in front of the item at its place. Empty = none.
	Before string
	Limit  int
}

// Plain reports whether the query is one of a page of sealed items, newest first, by access and group:
// List answers it.
func (q Query) Plain() bool {
	return !q.Narrows() && q.Order == Order{By: ByTime} && !q.Drafts && q.After == "" && q.Before == ""
}

// Skip returns how many items of the list are before the page.
func (q Query) Skip() int { return (max(q.Page, 1) - 1) * q.Limit }

// QueryText is a query as a client sends it. Empty fields were not sent.
type QueryText struct {
	Filter
	Words, Type, Name, From, To, Sort, State, After, Before string
	CapturedFrom, CapturedTo, Near                          string
	Traits                                                  TraitsText
	Metadata                                                map[string]string
	Page, Limit                                             *int
}

// Parse returns the query, or an Invalid fault that names the first parameter that is malformed.
func (t QueryText) Parse() (Query, error) {
	q := Query{Search: Search{Filter: t.Filter, Type: LowerName(t.Type), Name: t.Name, Metadata: t.Metadata}, After: t.After, Before: t.Before, Limit: DefaultLimit}
	if t.Limit != nil {
		q.Limit = *t.Limit
	}
	if t.Page != nil {
		if q.Page = *t.Page; q.Page < 1 {
			return Query{}, errPage
		}
	}
	var err error
	if q.Words, err = ParseWords(t.Words); err != nil {
		return Query{}, err
	}
	if q.Traits, err = t.Traits.Parse(); err != nil {
		return Query{}, err
	}
	if q.From, err = parseFrom("from", t.From); err != nil {
		return Query{}, err
	}
	if q.To, err = parseUntil("to", t.To); err != nil {
		return Query{}, err
	}
	if q.Captured, err = parseCaptureSearch(t.CapturedFrom, t.CapturedTo, t.Near); err != nil {
		return Query{}, err
	}
	if q.Order, err = ParseOrder(t.Sort); err != nil {
		return Query{}, err
	}
	switch t.State {
	case "", "sealed":
	case "draft":
		q.Drafts = true
	default:
		return Query{}, fault.New(fault.Invalid, "state must be sealed or draft")
	}
	return q, nil
}

var errPage = fault.New(fault.Invalid, "page must be 1 or more")

// parseFrom reads a time from which on items match: as in RFC 3339, or a date, which is the start of that day in UTC. An empty text is the zero time.
func parseFrom(name, text string) (time.Time, error) { return parseBound(name, text, 0) }

// parseUntil reads a time before which items match: a date is the end of that day in UTC, so the day is included.
func parseUntil(name, text string) (time.Time, error) { return parseBound(name, text, 1) }

func parseBound(name, text string, days int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil && day.Year() > 0 && day.Year() < lastYear {
		return day.AddDate(0, 0, days), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if _, plusErr := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+")); err != nil && plusErr == nil {
		return time.Time{}, fault.New(fault.Invalid, "%s has a space where a time has +: in a URL, write + as %%2B", name)
	}
	if err != nil || at.IsZero() {
		return time.Time{}, fault.New(fault.Invalid, "%s must be a time as in RFC 3339, such as 2026-11-22T18:30:00Z, or a date such as 2026-11-22", name)
	}
	return at, nil
}

// lastYear is the last year that RFC 3339 can write. The day after its last one has none.
const lastYear = 9999

// MaxFindOffset bounds the items of all pages up to one that is read by its number, of lists that are
// searched or sorted: their pages are read by cursor.
const MaxFindOffset = 1000

// Results are a part of a list.
type Results struct {
	Items []Item
	// Next is the cursor of the next part; empty if there is none. A part can have fewer items than were
	// asked for, even none, while there is a next one: a request examines a bounded number of items.
	Next string
	// Previous is the cursor of the part before, as Query.Before takes it; empty if this is known to be the first part.
	Previous string
	// Total is how many items the list has; nil for searches and drafts, whose number Count returns.
	Total *int64
}

// Found is what a store found.
type Found struct {
	// Items are those from the page of the query on.
	Items []Item
	// Skipped is how many items of the pages before it were found: all of them, unless Items is empty. They are only
	// counted, because they can take much more memory than the page.
	Skipped int
	// Stopped is the position of the last item that was examined; nil if the list ended, or if all items
	// that were wanted were found.
	Stopped *Position
	Common  bool // see Position
}

// Find returns a part of a list.
func (s *Service) Find(ctx context.Context, p account.Principal, q Query) (Results, error) {
	if err := q.validate(); err != nil {
		return Results{}, err
	}
	scope := ScopeOf(p)
	if err := s.searchAs(ctx, p.Account, &q.Search); err != nil {
		return Results{}, err
	}
	results, err := s.findPart(ctx, scope, q)
	if err != nil {
		return Results{}, err
	}
	if !q.Drafts && !q.Narrows() {
		total, err := s.store.CountItems(ctx, scope, q.Filter)
		if err != nil {
			return Results{}, err
		}
		results.Total = &total
	}
	return results, nil
}

// findPart returns a part of a list, without the number of all items.
func (s *Service) findPart(ctx context.Context, scope Scope, q Query) (Results, error) {
	if q.Before != "" {
		results, first, err := s.findBefore(ctx, scope, q)
		if err != nil || !first {
			return results, err
		}
		q.Before = "" // the first part, which may have become longer
	}
	var after *Position
	if q.After != "" {
		at, err := q.position(scope, q.After)
		if err != nil {
			return Results{}, err
		}
		after = &at
	}
	found, err := s.store.FindItems(ctx, scope, q, after, q.Limit+1)
	if err != nil {
		return Results{}, err
	}
	results := Results{Items: found.Items}
	if stopped := found.Stopped; len(found.Items) > q.Limit {
		results.Items = found.Items[:q.Limit]
		at := PositionOf(results.Items[q.Limit-1], q.Order)
		at.Common = found.Common
		results.Next = q.cursor(scope, at)
	} else if stopped != nil {
		stopped.Common = found.Common
		results.Next = q.cursor(scope, *stopped)
	}
	if after != nil && len(results.Items) > 0 {
		results.Previous = q.cursor(scope, PositionOf(results.Items[0], q.Order))
	}
	return results, nil
}

// findBefore returns the part of a list that ends in front of a position: it reads the list from there in the opposite order. first reports that
// there are fewer items than a part has, so that the list begins with it.
func (s *Service) findBefore(ctx context.Context, scope Scope, q Query) (results Results, first bool, err error) {
	before, err := q.position(scope, q.Before)
	if err != nil {
		return Results{}, false, err
	}
	backwards := q
	backwards.Before, backwards.Order.Ascending = "", !q.Order.Ascending
	found, err := s.store.FindItems(ctx, scope, backwards, &before, q.Limit+1)
	if err != nil {
		return Results{}, false, err
	}
	items, stopped := found.Items[:min(len(found.Items), q.Limit)], found.Stopped
	switch {
	case len(found.Items) > q.Limit:
		results.Previous = q.cursor(scope, marked(PositionOf(items[q.Limit-1], q.Order), found.Common))
	case stopped != nil:
		results.Previous = q.cursor(scope, marked(*stopped, found.Common))
	default:
		return Results{}, true, nil
	}
	slices.Reverse(items)
	results.Items = items
	switch {
	case len(items) > 0:
		results.Next = q.cursor(scope, PositionOf(items[len(items)-1], q.Order))
	default: // nothing was found on the way to where it stopped: go on from there
		results.Next = q.cursor(scope, *stopped)
	}
	return results, false, nil
}

// marked returns a position with Position.Common.
func marked(at Position, common bool) Position {
	at.Common = common
	return at
}

func (q Query) validate() error {
	if err := q.Search.validate(); err != nil {
		return err
	}
	if err := CheckLimit(q.Limit); err != nil {
		return err
	}
	switch {
	case q.Page < 0:
		return errPage
	case q.Page > 0 && q.After != "":
		return fault.New(fault.Invalid, "page cannot be combined with after")
	case q.Before != "" && (q.Page > 0 || q.After != ""):
		return fault.New(fault.Invalid, "before cannot be combined with page or after")
	case q.Page > MaxFindOffset/q.Limit:
		return fault.New(fault.Invalid, "page must be %d or less with this limit in a list that is searched or sorted: use after, with the cursor of the page before", MaxFindOffset/q.Limit)
	case q.Drafts && q.Order.By != ByTime:
		return fault.New(fault.Invalid, "sort must be time or -time for drafts")
	}
	return nil
}

// CheckLimit returns an Invalid fault for a length of a page that is out of bounds.
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxLimit {
		return fault.New(fault.Invalid, "limit must be from 1 to %d", MaxLimit)
	}
	return nil
}

// NextPage returns the cursor of the items after a page of List; empty if there are none.
func (s *Service) NextPage(p account.Principal, filter Filter, page Page) string {
	if len(page.Items) == 0 || int64(page.Number-1)*int64(page.Limit)+int64(len(page.Items)) >= page.Total {
		return ""
	}
	q := Query{Search: Search{Filter: filter}, Order: Order{By: ByTime}}
	return q.cursor(ScopeOf(p), PositionOf(page.Items[len(page.Items)-1], q.Order))
}

// Matches are how many sealed items of the app match a search, and the bytes of their objects.
type Matches struct {
	Items, Bytes int64
	// Partial is set if there may be more. A request examines a bounded number of items.
	Partial bool
}

// CountMatches counts the sealed items of the app that match a search. It returns the exact number
// at any size if the search is by access and group only.
func (s *Service) CountMatches(ctx context.Context, p account.Principal, search Search) (Matches, error) {
	if err := search.validate(); err != nil {
		return Matches{}, err
	}
	if !search.Narrows() {
		items, err := s.store.CountItems(ctx, ScopeOf(p), search.Filter)
		return Matches{Items: items}, err
	}
	return s.SumMatches(ctx, p, search)
}

// searchAs applies what searches of the account look in.
func (s *Service) searchAs(ctx context.Context, in account.Account, search *Search) error {
	if !search.Words.Any() {
		return nil
	}
	search.Keys = in.Search.Keys
	if raws := search.Words.raws(); in.Search.Language != "" && len(raws) > 0 {
		stems, err := s.store.Stems(ctx, Scope{AccountID: in.ID}, in.Search.Language, raws)
		if err != nil {
			return err
		}
		search.Words = search.Words.withStems(stems)
	}
	return nil
}

// SumMatches returns the bytes of the sealed items of the app that match a search.
func (s *Service) SumMatches(ctx context.Context, p account.Principal, search Search) (Matches, error) {
	if err := search.validate(); err != nil {
		return Matches{}, err
	}
	if err := s.searchAs(ctx, p.Account, &search); err != nil {
		return Matches{}, err
	}
	return s.store.CountMatches(ctx, ScopeOf(p), search)
}
