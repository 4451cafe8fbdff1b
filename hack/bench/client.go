package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"mediastack.dev/hack/exchange"
)

// document is what of an item's description is looked at.
type document struct {
	MediaID   string `json:"mediaId"`
	MimeType  string `json:"mimeType"`
	Size      int64  `json:"size"`
	File      string `json:"file"`
	Thumbnail string `json:"thumbnail"`
}

// do sends a request and returns the whole answer; any other status than the one wanted is an error.
func (e *endpoint) do(ctx context.Context, method, path string, body io.Reader, contentType string, status int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, e.baseURL+path, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if e.key != "" {
		request.Header.Set("x-service-apikey", e.key)
	}
	return e.send(request, status)
}

func (e *endpoint) send(request *http.Request, status int) ([]byte, error) {
	got, err := exchange.Do(e.client, request)
	if err == nil && got.Status != status {
		err = fmt.Errorf("%s %s is answered %d: %.300s", request.Method, request.URL.Path, got.Status, got.Body)
	}
	return got.Body, err
}

// get reads a path.
func (e *endpoint) get(ctx context.Context, path string) ([]byte, error) {
	return e.do(ctx, http.MethodGet, path, nil, "", http.StatusOK)
}

// form is a whole multipart body, made once, so that the client's own work is small.
type form struct {
	body        []byte
	contentType string
	size        int64 // of the file in it
}

func newForm(name string, data []byte, fields ...string) form {
	body, contentType := exchange.Form(name, data, fields...)
	return form{body: body, contentType: contentType, size: int64(len(data))}
}

// randomBytes returns bytes that do not compress.
func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data) // never fails, by its contract
	return data
}

// create uploads a form and returns the draft's description.
func (e *endpoint) create(ctx context.Context, f form) (document, error) {
	answer, err := e.do(ctx, http.MethodPost, "/media/create", bytes.NewReader(f.body), f.contentType, http.StatusCreated)
	if err != nil {
		return document{}, err
	}
	return decode(answer)
}

// store is create for a file that is not converted: its size must be what was sent.
func (e *endpoint) store(ctx context.Context, f form) (document, error) {
	draft, err := e.create(ctx, f)
	if err == nil && draft.Size != f.size {
		err = fmt.Errorf("of %d bytes %d were stored", f.size, draft.Size)
	}
	return draft, err
}

// seal seals a draft and returns the item's description.
func (e *endpoint) seal(ctx context.Context, id string) (document, error) {
	answer, err := e.do(ctx, http.MethodPost, "/media/seal/"+id, nil, "", http.StatusOK)
	if err != nil {
		return document{}, err
	}
	return decode(answer)
}

func decode(answer []byte) (document, error) {
	var item document
	return item, json.Unmarshal(answer, &item)
}
