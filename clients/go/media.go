package mediastack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"mediastack.dev/clients/go/api"
)

// Seal makes a draft permanent. Sealing again returns the item unchanged.
func (c *Client) Seal(ctx context.Context, mediaID string) (*Item, error) {
	return decode[Item](c.API.SealMedia(ctx, mediaID))
}

// Get reads a sealed item or a draft: all members of its document, or those that fields names. The other fields of the
// Item are zero then.
func (c *Client) Get(ctx context.Context, mediaID string, fields ...string) (*Item, error) {
	return decode[Item](c.API.GetMedia(ctx, mediaID, &api.GetMediaParams{Fields: optional(strings.Join(fields, ","))}))
}

// GetVersioned reads a sealed item or a draft, with its ETag for UpdateIfMatch.
func (c *Client) GetVersioned(ctx context.Context, mediaID string) (item *Item, etag string, err error) {
	response, err := c.API.GetMedia(ctx, mediaID, nil)
	if item, err = decode[Item](response, err); err != nil {
		return nil, "", err
	}
	return item, response.Header.Get("ETag"), nil
}

// Update changes an item or a draft, all members of the patch or none, and returns it.
func (c *Client) Update(ctx context.Context, mediaID string, patch Patch) (*Item, error) {
	return decode[Item](c.API.UpdateMedia(ctx, mediaID, nil, patch))
}

// UpdateIfMatch changes an item or a draft only if it has this ETag; otherwise the error has the code
// api.ErrorCodePreconditionFailed. If the answer of an attempt is lost, the next attempt can be answered so although
// the first one has succeeded: the error then has Repeated.
func (c *Client) UpdateIfMatch(ctx context.Context, mediaID, etag string, patch Patch) (*Item, error) {
	return decode[Item](c.API.UpdateMedia(ctx, mediaID, &api.UpdateMediaParams{IfMatch: &etag}, patch))
}

// Batch seals, deletes, restores or updates up to 100 items. The result of each has the status and the error of the
// same request for this item alone, and ExpiresAt if it was deleted and can be restored. If the connection fails and the
// batch is repeated, items that the first attempt has deleted are answered 404.
func (c *Client) Batch(ctx context.Context, request BatchRequest) ([]BatchResult, error) {
	results, err := decode[api.BatchResults](c.API.ChangeManyMedia(ctx, request))
	if err != nil {
		return nil, err
	}
	return results.Results, nil
}

// Delete deletes an item or a draft. ExpiresAt of the answer is until when Restore can bring it back; it is nil if the
// delete is permanent: that of a draft, and each one without undo in the account. It is also nil if the answer of the
// first attempt was lost.
func (c *Client) Delete(ctx context.Context, mediaID string) (*Deleted, error) {
	return c.delete(ctx, mediaID, nil)
}

// DeletePermanently deletes an item or a draft so that it cannot be restored, also if it was deleted already. It needs an
// API key.
func (c *Client) DeletePermanently(ctx context.Context, mediaID string) error {
	permanent := true
	_, err := c.delete(ctx, mediaID, &permanent)
	return err
}

func (c *Client) delete(ctx context.Context, mediaID string, permanent *bool) (*Deleted, error) {
	answer, err := decode[Deleted](c.API.DeleteMedia(ctx, mediaID, &api.DeleteMediaParams{Permanent: permanent}))
	var answered *Error
	if errors.As(err, &answered) && answered.Status == http.StatusNotFound && answered.Repeated {
		return &Deleted{Deleted: true, MediaID: mediaID}, nil // the attempt whose answer was lost has deleted it
	}
	return answer, err
}

// Restore restores a deleted item, with its id and its address.
func (c *Client) Restore(ctx context.Context, mediaID string) (*Item, error) {
	return decode[Item](c.API.RestoreMedia(ctx, mediaID))
}

// CreateSignature creates a signature with which a browser uploads: for one hour by default, and within the
// restrictions that are given, with the URLs for it. With any but Group, every request of a resumable upload needs the
// same signature, which continues it after its expiry.
func (c *Client) CreateSignature(ctx context.Context, request SignatureRequest) (*Signature, error) {
	return decode[Signature](c.API.CreateSignature(ctx, request))
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
