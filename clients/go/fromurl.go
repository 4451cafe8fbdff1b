package mediastack

import (
	"context"
	"time"

	"mediastack.dev/clients/go/api"
)

// URLUploadOptions describe an upload from a URL. All are optional.
type URLUploadOptions struct {
	// FileName is the last part of the path of the URL by default.
	FileName string
	// Access is Private by default.
	Access         Access
	Caption, Group string
	// Metadata has up to 24 pairs of the application.
	Metadata map[string]string
	// Seal seals the draft when the file is complete.
	Seal bool
	// OnStart is called with the id of the upload, with which WaitForUploadFromURL waits for it.
	OnStart func(jobID string)
	// OnProgress is called with the bytes that the service has received, and how many there are; 0 while the other server
	// has not said it.
	OnProgress func(received, total int64)
}

const (
	minLook = 250 * time.Millisecond
	// maxLook is the longest wait between two looks at an upload from a URL, of which the service records the progress
	// every 5 s.
	maxLook = 5 * time.Second
)

// UploadFromURL uploads a file that the service downloads from a URL, and waits until it is complete. It returns its
// draft, or with Seal the sealed item. The error of a failed download is *UploadFromURLError. The end of the context ends
// the wait only: the upload goes on, and WaitForUploadFromURL waits again. Installations without uploads from a URL answer
// api.ErrorCodeForbidden.
func (c *Client) UploadFromURL(ctx context.Context, fileURL string, options URLUploadOptions) (*Item, error) {
	started, err := c.StartUploadFromURL(ctx, fileURL, options)
	if err != nil {
		return nil, err
	}
	return c.WaitForUploadFromURL(ctx, started.JobID, options.OnProgress)
}

// StartUploadFromURL begins an upload from a URL and returns its state, without waiting. It is not repeated if its answer
// is lost.
func (c *Client) StartUploadFromURL(ctx context.Context, fileURL string, options URLUploadOptions) (*URLUpload, error) {
	request := api.URLUploadRequest{URL: fileURL, FileName: optional(options.FileName), Access: optional(options.Access), Caption: optional(options.Caption),
		Group: optional(options.Group), Seal: optional(options.Seal)}
	if options.Metadata != nil {
		request.Metadata = &options.Metadata
	}
	started, err := decode[URLUpload](c.API.UploadFromURL(ctx, request))
	if err == nil && options.OnStart != nil {
		options.OnStart(started.JobID)
	}
	return started, err
}

// UploadFromURLState reads the state of an upload from a URL. The service keeps it for 24 hours after the end by default.
func (c *Client) UploadFromURLState(ctx context.Context, jobID string) (*URLUpload, error) {
	return decode[URLUpload](c.API.GetURLUpload(ctx, jobID))
}

// WaitForUploadFromURL waits until an upload from a URL is complete, and returns its draft or item. onProgress may be nil.
func (c *Client) WaitForUploadFromURL(ctx context.Context, jobID string, onProgress func(received, total int64)) (*Item, error) {
	for delay := minLook; ; delay = min(2*delay, maxLook) {
		state, err := c.UploadFromURLState(ctx, jobID)
		if err != nil {
			return nil, err
		}
		if onProgress != nil {
			var total int64
			if state.Total != nil {
				total = *state.Total
			}
			onProgress(state.Bytes, total)
		}
		if state.Error != nil {
			return nil, &UploadFromURLError{JobID: jobID, Code: state.Error.Code, Detail: state.Error.Detail}
		}
		if state.State == api.URLUploadStateDone && state.MediaID != nil {
			return c.Get(ctx, *state.MediaID)
		}
		if err := c.transport.retry.Wait(ctx, delay); err != nil {
			return nil, err
		}
	}
}
