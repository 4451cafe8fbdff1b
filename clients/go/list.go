package mediastack

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/clients/go/api"
)

// Filter selects items. An empty field does not filter.
type Filter struct {
	Access Access
	// Group is the exact group.
	Group string
	// Type is a MIME type, or a kind of them, such as image/*.
	Type string
	// Name is a part of the original file name. The case of ASCII letters does not matter.
	Name string
	// From and To select the uploads that began at From or later, and before To.
	From, To time.Time
	// CapturedFrom and CapturedTo select the files that were made at CapturedFrom or later, and before CapturedTo.
	CapturedFrom, CapturedTo time.Time
	// Near selects files that were made near a place, in accounts that keep places: latitude, longitude and a radius in metres, such as
	// 48.8584,2.2945,500.
	Near string
	// Words are in the file name, the caption, the group or the metadata, in any order, or are beginnings of words there. Words in quotation marks
	// follow each other, and a minus before a word leaves out the items that have it.
	Words string
	// Has and Lacks select the items that have these, or have none of these.
	Has, Lacks []Trait
	// MinBytes and MaxBytes bound the size, MinWidth to MaxHeight the width and height of items of which they are known.
	MinBytes, MaxBytes, MinWidth, MaxWidth, MinHeight, MaxHeight int64
	// Orientation selects pictures and videos by their form, such as api.Landscape.
	Orientation api.Orientation
	// Color selects images whose dominant color is close to this one, such as #1e6fb9.
	Color string
	// Meta has pairs of the metadata.
	Meta map[string]string
}

// Trait is something that an item has or lacks.
type Trait string

// The traits.
const (
	TraitCaption Trait = "caption"
	TraitGroup   Trait = "group"
)

// ListOptions select items and one page of them.
type ListOptions struct {
	Filter
	// Sort is api.SortMinusTime by default, newest first.
	Sort api.Sort
	// State api.Draft lists the drafts of the app instead of the sealed items.
	State api.State
	// After is Next of the page before, with the same filter and Sort.
	After string
	// Page is a number from 1, and not together with After. Limit is 10 by default and at most 100.
	Page, Limit int
	// Fields are the members that the documents have, such as mediaId and file; the other fields of an Item are zero
	// then. Without them they have all.
	Fields []string
}

// Page is one page of a list.
type Page struct {
	Items []Item
	// Next is After of the next page; empty on the last one.
	Next string
	// Total is the number of matching items on all pages; nil for drafts and with filters other than Access and
	// Group, whose items Count counts.
	Total *int
}

// iterationLimit is the page size of iterators, by default.
const iterationLimit = 100

// List reads one page of the sealed items, or of the drafts.
func (c *Client) List(ctx context.Context, options ListOptions) (*Page, error) {
	response, err := c.API.ListMedia(ctx, &api.ListMediaParams{
		Page: optional(options.Page), Limit: optional(options.Limit), After: optional(options.After), Sort: optional(options.Sort), State: optional(options.State),
		Access: optional(options.Access), Group: optional(options.Group), Type: optional(options.Type), Name: optional(options.Name),
		From: optional(options.From), To: optional(options.To), CapturedFrom: optional(options.CapturedFrom), CapturedTo: optional(options.CapturedTo), Near: optional(options.Near), Fields: optional(strings.Join(options.Fields, ",")),
	}, options.more)
	items, err := decode[[]Item](response, err)
	if err != nil {
		return nil, err
	}
	page := &Page{Items: *items, Next: response.Header.Get("X-Next-Cursor")}
	if text := response.Header.Get("X-Total-Count"); text != "" {
		total, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("mediastack: the answer to a list: %w", err)
		}
		page.Total = &total
	}
	return page, nil
}

// Items returns an iterator over all items of a list, newest first without Sort, which ends after the first error. It
// reads by cursor: every item that exists during the whole iteration is returned, once, whatever is uploaded and deleted
// meanwhile. Limit, the items of one request, is 100 by default.
func (c *Client) Items(ctx context.Context, options ListOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		at := options
		if at.Limit == 0 {
			at.Limit = iterationLimit
		}
		for {
			page, err := c.List(ctx, at)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			at.Page, at.After = 0, page.Next
		}
	}
}

// Count counts the sealed items that match. With filters other than Access and Group there may be more, which AtLeast
// reports.
func (c *Client) Count(ctx context.Context, filter Filter) (*Count, error) {
	return decode[Count](c.API.CountMedia(ctx, &api.CountMediaParams{
		Access: optional(filter.Access), Group: optional(filter.Group), Type: optional(filter.Type), Name: optional(filter.Name),
		From: optional(filter.From), To: optional(filter.To), CapturedFrom: optional(filter.CapturedFrom), CapturedTo: optional(filter.CapturedTo), Near: optional(filter.Near),
	}, filter.more))
}

// Totals reads the bytes of the account's sealed items, or with a filter of those in the app that match, and the
// account's cap.
func (c *Client) Totals(ctx context.Context, filter Filter) (*Totals, error) {
	return decode[Totals](c.API.TotalStorage(ctx, &api.TotalStorageParams{
		Access: optional(filter.Access), Group: optional(filter.Group), Type: optional(filter.Type), Name: optional(filter.Name),
		From: optional(filter.From), To: optional(filter.To), CapturedFrom: optional(filter.CapturedFrom), CapturedTo: optional(filter.CapturedTo), Near: optional(filter.Near),
	}, filter.more))
}

// DeletedPage is one page of the deleted items that can be restored.
type DeletedPage struct {
	Items []DeletedItem
	// Total is the number of items on all pages.
	Total int
}

// ListDeleted reads one page of the deleted items that can be restored, the latest delete first. Page starts at 1, and
// limit is at most 100; 0 is the default, 1 and 10.
func (c *Client) ListDeleted(ctx context.Context, page, limit int) (*DeletedPage, error) {
	response, err := c.API.ListDeletedMedia(ctx, &api.ListDeletedMediaParams{Page: optional(page), Limit: optional(limit)})
	items, err := decode[[]DeletedItem](response, err)
	if err != nil {
		return nil, err
	}
	total, err := strconv.Atoi(response.Header.Get("X-Total-Count"))
	if err != nil {
		return nil, fmt.Errorf("mediastack: the answer to a list: %w", err)
	}
	return &DeletedPage{Items: *items, Total: total}, nil
}

// DeletedItems returns an iterator over the deleted items that can be restored, the latest delete first, which ends after
// the first error. They can be restored and deleted permanently while they are read. One can be missed if another client
// does so meanwhile.
func (c *Client) DeletedItems(ctx context.Context) iter.Seq2[DeletedItem, error] {
	return func(yield func(DeletedItem, error) bool) {
		seen := map[string]bool{}
		for number, total := 1, 0; ; {
			page, err := c.ListDeleted(ctx, number, iterationLimit)
			if err != nil {
				yield(DeletedItem{}, err)
				return
			}
			gone := total - page.Total
			total = page.Total
			if gone > 0 && number > 1 { // others have moved up by as many, maybe to pages before this one
				number = max(1, number-(gone+iterationLimit-1)/iterationLimit)
				continue
			}
			before := len(seen)
			for _, item := range page.Items {
				if seen[item.MediaID] {
					continue
				}
				seen[item.MediaID] = true
				if !yield(item, nil) {
					return
				}
			}
			switch {
			case len(seen) > before: // what the caller has restored makes others move up to this page
			case len(page.Items) < iterationLimit:
				return
			default:
				number++
			}
		}
	}
}

// more adds the filters that are the same for lists, counts and totals, and those by metadata: the OpenAPI document has no parameter for each key.
func (f Filter) more(_ context.Context, r *http.Request) error {
	query := r.URL.Query()
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	traits := func(all []Trait) string {
		texts := make([]string, len(all))
		for i, one := range all {
			texts[i] = string(one)
		}
		return strings.Join(texts, ",")
	}
	set("q", f.Words)
	set("has", traits(f.Has))
	set("lacks", traits(f.Lacks))
	for name, bound := range map[string]int64{"minBytes": f.MinBytes, "maxBytes": f.MaxBytes, "minWidth": f.MinWidth, "maxWidth": f.MaxWidth, "minHeight": f.MinHeight, "maxHeight": f.MaxHeight} {
		if bound != 0 {
			set(name, strconv.FormatInt(bound, 10))
		}
	}
	set("orientation", string(f.Orientation))
	set("color", f.Color)
	for key, value := range f.Meta {
		query.Set("meta."+key, value)
	}
	r.URL.RawQuery = query.Encode()
	return nil
}
