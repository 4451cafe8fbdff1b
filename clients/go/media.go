package mediastack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"

	"mediastack.dev/clients/go/api"
)

// Filter selects sealed items. An empty field does not filter.
type Filter struct {
	Access Access
	// Group is the exact group.
	Group string
}

// ListOptions select one page of a list.
type ListOptions struct {
	Filter
	// Page starts at 1, which is the default. Limit is 10 by default and at most 100.
	Page, Limit int
}

// Page is one page of a list.
type Page struct {
	Items []Item
	// Total is the number of matching items on all pages.
	Total int
}

// iterationLimit is the page size of Items.
const iterationLimit = 100

// Seal makes a draft permanent. Sealing again returns the item unchanged.
func (c *Client) Seal(ctx context.Context, mediaID string) (*Item, error) {
	return decode[Item](c.API.SealMedia(ctx, mediaID))
}

// Get reads a sealed item or a draft.
func (c *Client) Get(ctx context.Context, mediaID string) (*Item, error) {
	return decode[Item](c.API.GetMedia(ctx, mediaID))
}

// List reads one page of the sealed items, newest first.
func (c *Client) List(ctx context.Context, options ListOptions) (*Page, error) {
	response, err := c.API.ListMedia(ctx, &api.ListMediaParams{
		Page: optional(options.Page), Limit: optional(options.Limit), Access: optional(options.Access), Group: optional(options.Group),
	})
	items, err := decode[[]Item](response, err)
	if err != nil {
		return nil, err
	}
	total, err := strconv.Atoi(response.Header.Get("X-Total-Count"))
	if err != nil {
		return nil, fmt.Errorf("mediastack: the answer to a list: %w", err)
	}
	return &Page{Items: *items, Total: total}, nil
}

// Items returns an iterator over all sealed items, newest first, which ends after the first error. Items that are
// sealed meanwhile move others to the next page, where they are not returned twice. Items that are deleted meanwhile
// move others to the page before, where they are missed: collect the items before you delete them.
func (c *Client) Items(ctx context.Context, filter Filter) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		before := map[string]bool{}
		for number := 1; ; number++ {
			page, err := c.List(ctx, ListOptions{Filter: filter, Page: number, Limit: iterationLimit})
			if err != nil {
				yield(Item{}, err)
				return
			}
			current := map[string]bool{}
			for _, item := range page.Items {
				current[item.MediaID] = true
				if !before[item.MediaID] && !yield(item, nil) {
					return
				}
			}
			if number*iterationLimit >= page.Total || len(page.Items) == 0 {
				return
			}
			before = current
		}
	}
}

// Count counts the sealed items that match.
func (c *Client) Count(ctx context.Context, filter Filter) (int64, error) {
	count, err := decode[api.Count](c.API.CountMedia(ctx, &api.CountMediaParams{Access: optional(filter.Access), Group: optional(filter.Group)}))
	if err != nil {
		return 0, err
	}
	return count.Count, nil
}

// Totals reads the bytes of the account's sealed items, and its cap.
func (c *Client) Totals(ctx context.Context) (*Totals, error) {
	return decode[Totals](c.API.TotalStorage(ctx))
}

// Delete deletes an item or a draft. It cannot be restored.
func (c *Client) Delete(ctx context.Context, mediaID string) error {
	_, err := c.API.DeleteMedia(ctx, mediaID)
	var answered *Error
	if errors.As(err, &answered) && answered.Status == http.StatusNotFound && answered.Repeated {
		return nil // the attempt whose answer was lost has deleted it
	}
	return err
}

// CreateSignature creates a signature with which a browser uploads for one hour, into the group unless it is empty.
func (c *Client) CreateSignature(ctx context.Context, group string) (string, error) {
	signature, err := decode[api.Signature](c.API.CreateSignature(ctx, api.SignatureRequest{Group: optional(group)}))
	if err != nil {
		return "", err
	}
	return signature.Signature, nil
}

// Settings reads the effective settings of the account.
func (c *Client) Settings(ctx context.Context) (*Settings, error) {
	return decode[Settings](c.API.GetSettings(ctx))
}

// UpdateSettings changes the settings that are not nil, all or none.
func (c *Client) UpdateSettings(ctx context.Context, change SettingsChange) (*Settings, error) {
	return decode[Settings](c.API.UpdateSettings(ctx, change))
}

// Open opens the file, the original or the thumbnail of an item by its URL, from an offset on. No credential is sent.
func (c *Client) Open(ctx context.Context, fileURL string, offset int64) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fileURL, nil)
	if err != nil {
		return nil, err
	}
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := c.transport.repeat(r, true, c.transport.open)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// decode returns the document of an answer, which the transport has read.
func decode[T any](response *http.Response, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	document := new(T)
	if err := json.NewDecoder(response.Body).Decode(document); err != nil {
		return nil, fmt.Errorf("mediastack: the answer to %s: %w", response.Request.URL.Path, err)
	}
	return document, nil
}

// optional returns nil for the zero value.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
