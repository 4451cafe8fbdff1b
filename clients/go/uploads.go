package mediastack

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"mediastack.dev/clients/go/api"
)

// RunningPage is one page of the resumable uploads that are running.
type RunningPage struct {
	Uploads []RunningUpload
	// Next is the argument after of the next page; empty on the last one.
	Next string
}

// ListUploads reads one page of the resumable uploads that are neither complete nor expired, the newest first. Each holds
// room under the cap. limit is at most 100, and 0 is 10. A client with an upload capability lists its own.
func (c *Client) ListUploads(ctx context.Context, after string, limit int) (*RunningPage, error) {
	response, err := c.API.ListUploads(ctx, &api.ListUploadsParams{After: optional(after), Limit: optional(limit)})
	uploads, err := decode[[]RunningUpload](response, err)
	if err != nil {
		return nil, err
	}
	return &RunningPage{Uploads: *uploads, Next: response.Header.Get("X-Next-Cursor")}, nil
}

// Uploads returns an iterator over all of them, which ends after the first error. They can be ended while they are read.
func (c *Client) Uploads(ctx context.Context) iter.Seq2[RunningUpload, error] {
	return func(yield func(RunningUpload, error) bool) {
		for after := ""; ; {
			page, err := c.ListUploads(ctx, after, iterationLimit)
			if err != nil {
				yield(RunningUpload{}, err)
				return
			}
			for _, upload := range page.Uploads {
				if !yield(upload, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// EndUpload ends a resumable upload that is not complete, by its UploadID. Its room is free at once. It is no error if
// there is none.
func (c *Client) EndUpload(ctx context.Context, uploadID string) error {
	response, err := c.API.EndUpload(ctx, uploadID)
	if err == nil {
		return response.Body.Close()
	}
	var answered *Error
	if errors.As(err, &answered) && answered.Status == http.StatusNotFound {
		return nil
	}
	return err
}
