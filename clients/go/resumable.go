package mediastack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	tusVersion = "1.0.0"
	// resumablePath is the path of resumable uploads, below the base URL.
	resumablePath = "/media/create/resumable"
	// cancelTimeout is for the removal of an upload whose context has ended.
	cancelTimeout = 10 * time.Second
)

// uploadResumable sends a file with TUS. After a broken connection it continues from the offset that the service has.
func (c *Client) uploadResumable(ctx context.Context, file io.ReadSeeker, size int64, options UploadOptions) (*Item, error) {
	u := &resumable{transport: c.transport, size: size, chunk: options.ChunkSize, url: options.UploadURL,
		source: &source{file: file, total: size, onProgress: options.OnProgress}}
	defer u.source.wait()
	if u.url == "" {
		if err := u.create(ctx, options); err != nil {
			return nil, err
		}
	} else if err := c.checkUploadURL(u.url); err != nil {
		return nil, err
	} else if err := u.readOffset(ctx); err != nil {
		return nil, err
	}
	if options.OnUploadURL != nil {
		options.OnUploadURL(u.url)
	}
	if err := u.send(ctx); err != nil {
		// Without the URL nothing can continue the upload, which would hold its bytes under the cap until it expires.
		if ctx.Err() != nil && options.OnUploadURL == nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
			defer cancel()
			_ = c.CancelUpload(last, u.url)
		}
		return nil, err
	}
	mediaID := path.Base(u.url)
	document := u.answer.Get("x-" + c.transport.brand + "-media")
	switch {
	case document != "":
		item := new(Item)
		if err := json.Unmarshal([]byte(document), item); err != nil {
			return nil, fmt.Errorf("mediastack: the document of %s: %w", mediaID, err)
		}
		return item, nil
	case c.transport.credential.upload:
		return nil, &MissingDocumentError{MediaID: mediaID}
	default:
		return c.Get(ctx, mediaID)
	}
}

// CancelUpload removes a resumable upload that is not complete, by the URL that OnUploadURL was given. It is no
// error if there is none.
func (c *Client) CancelUpload(ctx context.Context, uploadURL string) error {
	if err := c.checkUploadURL(uploadURL); err != nil {
		return err
	}
	r, err := tusRequest(ctx, http.MethodDelete, uploadURL)
	if err != nil {
		return err
	}
	_, err = c.transport.Do(r)
	var answered *Error
	if errors.As(err, &answered) && answered.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// checkUploadURL checks that a URL is of this service, which alone may be sent the credential.
func (c *Client) checkUploadURL(uploadURL string) error {
	if !strings.HasPrefix(uploadURL, c.transport.base.JoinPath(resumablePath).String()+"/") {
		return fmt.Errorf("mediastack: %q is not an upload of this service", uploadURL)
	}
	return nil
}

// resumable is one upload.
type resumable struct {
	transport   *transport
	source      *source
	size, chunk int64
	url         string
	offset      int64
	answer      http.Header // to the last request
}

func (u *resumable) create(ctx context.Context, options UploadOptions) error {
	r, err := tusRequest(ctx, http.MethodPost, u.transport.base.JoinPath(resumablePath).String())
	if err != nil {
		return err
	}
	r.Header.Set("Upload-Length", strconv.FormatInt(u.size, 10))
	fields, err := options.fields()
	if err != nil {
		return err
	}
	fields = append(fields, [2]string{"filename", options.FileName})
	if options.ContentType != "" {
		fields = append(fields, [2]string{"filetype", options.ContentType})
	}
	var metadata []string
	for _, field := range fields {
		metadata = append(metadata, field[0]+" "+base64.StdEncoding.EncodeToString([]byte(field[1])))
	}
	r.Header.Set("Upload-Metadata", strings.Join(metadata, ","))
	response, err := u.transport.Do(r)
	if err != nil {
		return err
	}
	location, err := r.URL.Parse(response.Header.Get("Location"))
	if err != nil {
		return fmt.Errorf("mediastack: the address of the upload: %w", err)
	}
	u.url, u.answer = location.String(), response.Header
	return nil
}

// send sends the rest of the file, until the service has all of it.
func (u *resumable) send(ctx context.Context) error {
	for attempt := 1; u.offset < u.size; {
		err := u.sendChunk(ctx)
		if err == nil {
			attempt = 1
			continue
		}
		for err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			delay, again := u.transport.delay(temporary(err), attempt, u.transport.retry.UploadAttempts)
			if !again {
				return err
			}
			if err := u.transport.retry.Wait(ctx, delay); err != nil {
				return err
			}
			attempt++
			before := u.offset
			if err = u.readOffset(ctx); err == nil && u.offset > before {
				attempt = 1
			}
		}
	}
	return nil
}

// sendChunk sends one chunk, in one attempt.
func (u *resumable) sendChunk(ctx context.Context) error {
	length := u.size - u.offset
	if u.chunk > 0 {
		length = min(length, u.chunk)
	}
	r, err := tusRequest(ctx, http.MethodPatch, u.url)
	if err != nil {
		return err
	}
	if r.Body, err = u.source.body(u.offset, length, bytes.NewReader(nil), bytes.NewReader(nil)); err != nil {
		return err
	}
	r.ContentLength = length
	r.Header.Set("Upload-Offset", strconv.FormatInt(u.offset, 10))
	r.Header.Set("Content-Type", "application/offset+octet-stream")
	return u.take(u.transport.once(r))
}

// readOffset asks for the offset, in one attempt.
func (u *resumable) readOffset(ctx context.Context) error {
	r, err := tusRequest(ctx, http.MethodHead, u.url)
	if err != nil {
		return err
	}
	return u.take(u.transport.once(r))
}

// take takes the offset of an answer.
func (u *resumable) take(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	offset, err := strconv.ParseInt(response.Header.Get("Upload-Offset"), 10, 64)
	if err != nil || offset < 0 || offset > u.size {
		return fmt.Errorf("mediastack: the offset of the upload is %q of %d", response.Header.Get("Upload-Offset"), u.size)
	}
	u.offset, u.answer = offset, response.Header
	return nil
}

// temporary returns an error as one that passes, if the upload can continue after it: a lock that another request
// holds, an offset that went back, a chunk that was discarded, and every failure of a server.
func temporary(err error) error {
	var answered *Error
	if !errors.As(err, &answered) {
		return err
	}
	switch {
	case answered.Status >= 500, answered.Status == http.StatusConflict, answered.Status == http.StatusLocked, answered.Status == 460:
		return &Error{Status: http.StatusServiceUnavailable, RetryAfter: answered.RetryAfter}
	}
	return err
}

func tusRequest(ctx context.Context, method, address string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Tus-Resumable", tusVersion)
	return r, nil
}
