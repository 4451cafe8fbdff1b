package mediastack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"reflect"
	"sync"
)

// UploadOptions describe an upload. All are optional.
type UploadOptions struct {
	// FileName is "file" by default.
	FileName string
	// ContentType is used where the type cannot be detected from the bytes.
	ContentType string
	// Access is Private by default.
	Access         Access
	Caption, Group string
	// Metadata has up to 24 pairs of the application.
	Metadata map[string]string
	// Seal seals the draft. An upload signature seals if it was created with Seal.
	Seal bool
	// ResumableFrom is the number of bytes from which an upload is resumable. Default 8 MiB; negative: always.
	ResumableFrom int64
	// ChunkSize limits the bytes of one request of a resumable upload. Default: the whole file.
	ChunkSize int64
	// UploadURL continues the resumable upload that an earlier call reported to OnUploadURL.
	UploadURL string
	// OnUploadURL is called once with the URL of a resumable upload. With it an upload whose context ends is kept,
	// to be continued.
	OnUploadURL func(uploadURL string)
	// OnProgress is called with the bytes that were sent.
	OnProgress func(sent, total int64)
}

const defaultResumableFrom = 8 << 20

// Upload uploads a file from its beginning and returns its draft, or with Seal the sealed item. Files from
// ResumableFrom on are sent with TUS and continue after a broken connection; smaller ones are sent as a form.
func (c *Client) Upload(ctx context.Context, file io.ReadSeeker, options UploadOptions) (*Item, error) {
	if value := reflect.ValueOf(file); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, errors.New("mediastack: the file is nil")
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if options.FileName == "" {
		options.FileName = "file"
	}
	var draft *Item
	if options.UploadURL != "" || size >= cmp.Or(options.ResumableFrom, defaultResumableFrom) {
		draft, err = c.uploadResumable(ctx, file, size, options)
	} else {
		draft, err = c.uploadForm(ctx, file, size, options)
	}
	if err != nil || !options.Seal || !draft.Temp {
		return draft, err
	}
	if c.transport.credential.upload {
		return nil, &NotSealedError{MediaID: draft.MediaID}
	}
	return c.Seal(ctx, draft.MediaID)
}

// fields returns the names and values of the fields that are set, as a form and the metadata of TUS have them.
func (o UploadOptions) fields() (set [][2]string, err error) {
	for _, field := range [][2]string{{"access", string(o.Access)}, {"caption", o.Caption}, {"group", o.Group}} {
		if field[1] != "" {
			set = append(set, field)
		}
	}
	if o.Metadata == nil {
		return set, nil
	}
	metadata, err := json.Marshal(o.Metadata)
	return append(set, [2]string{"metadata", string(metadata)}), err
}

// uploadForm sends a file as a form.
func (c *Client) uploadForm(ctx context.Context, file io.ReadSeeker, size int64, options UploadOptions) (*Item, error) {
	fields, err := options.fields()
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	for _, field := range fields {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return nil, err
		}
	}
	part := map[string][]string{"Content-Disposition": {multipart.FileContentDisposition("file", options.FileName)}}
	if options.ContentType != "" {
		part["Content-Type"] = []string{options.ContentType}
	}
	if _, err := form.CreatePart(part); err != nil {
		return nil, err
	}
	tail := "\r\n--" + form.Boundary() + "--\r\n"
	source := &source{file: file, total: size, onProgress: options.OnProgress}
	defer source.wait()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.transport.base.JoinPath("media/create").String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.ContentLength = int64(head.Len()) + size + int64(len(tail))
	r.GetBody = func() (io.ReadCloser, error) {
		return source.body(0, size, bytes.NewReader(head.Bytes()), bytes.NewReader([]byte(tail)))
	}
	if r.Body, err = r.GetBody(); err != nil {
		return nil, err
	}
	return decode[Item](c.transport.Do(r))
}

// source is a file that is sent in one or more requests, one after the other.
type source struct {
	file       io.ReadSeeker
	total      int64
	onProgress func(sent, total int64)
	reading    *body
}

// body returns the body of a request: bytes of the file, between others.
func (s *source) body(offset, length int64, head, tail io.Reader) (io.ReadCloser, error) {
	s.wait()
	if _, err := s.file.Seek(offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("mediastack: read the file: %w", err)
	}
	part := &counted{file: io.LimitReader(s.file, length), sent: offset, source: s}
	s.reading = &body{Reader: io.MultiReader(head, part, tail), closed: make(chan struct{})}
	return s.reading, nil
}

// wait waits until nothing reads the file: a connection may do so for a moment after its request has ended.
func (s *source) wait() {
	if s.reading != nil {
		<-s.reading.closed
	}
}

// counted reports what was read of a file.
type counted struct {
	file   io.Reader
	sent   int64
	source *source
}

// Read reads from the file.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.sent += int64(n)
	if n > 0 && c.source.onProgress != nil {
		c.source.onProgress(c.sent, c.source.total)
	}
	return n, err
}

// body is the body of a request. It reports when the connection has closed it.
type body struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

// Close ends the use of the file.
func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
