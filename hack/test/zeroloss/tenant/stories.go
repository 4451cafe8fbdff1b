package tenant

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	mathrand "math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"sync/atomic"
	"time"

	"mediastack.dev/hack/exchange"
)

const (
	smallFile = 20_000
	tusFile   = 60_000
	// maxResumes bounds the attempts to go on with one resumable upload.
	maxResumes = 10
)

// story is what a client does from beginning to end.
type story struct {
	weight int
	run    func(*Tenant, context.Context) error
}

var stories = []story{
	{5, (*Tenant).uploadAndSeal}, {2, (*Tenant).resumable}, {2, (*Tenant).picture},
	{6, (*Tenant).read}, {3, (*Tenant).callTools}, {1, (*Tenant).totals},
}

// draw chooses a story by weight.
func draw() story {
	sum := 0
	for _, s := range stories {
		sum += s.weight
	}
	n := mathrand.IntN(sum)
	for _, s := range stories {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	panic("the weights have changed")
}

// errContent is an answer that is not what was uploaded. Requests that failed were counted before.
var errContent = errors.New("the answer is wrong")

// begin runs the story. Its first request has waited for its turn already.
func (s story) begin(ctx context.Context, t *Tenant) {
	if err := s.run(t, ctx); errors.Is(err, errContent) {
		t.ledger.fail(err)
	}
}

// then is do for the requests after the first one of a story.
func (t *Tenant) then(ctx context.Context, r request) (answer, error) {
	t.limiter.Reserve()
	return t.do(ctx, r)
}

// document is a media document.
type document struct {
	MediaID   string `json:"mediaId"`
	File      string `json:"file"`
	Original  string `json:"original"`
	Thumbnail string `json:"thumbnail"`
	Temp      bool   `json:"temp"`
}

func decode(got answer, err error) (found document, _ error) {
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(got.Body, &found); err != nil {
		return found, fmt.Errorf("%w: %w", errContent, err)
	}
	return found, nil
}

func (t *Tenant) get(id string) request {
	return request{method: http.MethodGet, url: t.config.BaseURL + "/media/get/" + id, want: http.StatusOK}
}

// original is the request for the uploaded bytes.
func (d document) original() request {
	if d.Original != "" {
		return request{method: http.MethodGet, url: d.Original, want: http.StatusOK}
	}
	return request{method: http.MethodGet, url: d.File, want: http.StatusOK}
}

func (i *item) compare(got answer) error {
	if sha256.Sum256(got.Body) != i.digest {
		return fmt.Errorf("%w: %s has %d bytes that differ from the %d uploaded ones", errContent, i.id, len(got.Body), i.size)
	}
	return nil
}

func (t *Tenant) upload(ctx context.Context, name string, data []byte) (*item, document, error) {
	form, contentType := exchange.Form(name, data)
	var made document
	var stored *item
	_, err := t.do(ctx, request{
		method: http.MethodPost, url: t.config.BaseURL + "/media/create", body: form,
		header: []string{"Content-Type", contentType}, want: http.StatusCreated,
		acknowledge: func(got answer, p *phase) {
			if json.Unmarshal(got.Body, &made) == nil {
				stored = t.ledger.add(made.MediaID, data, p)
			}
		},
	})
	if err == nil && stored == nil {
		err = fmt.Errorf("%w: an upload has no document", errContent)
	}
	return stored, made, err
}

func (t *Tenant) seal(ctx context.Context, i *item) error {
	t.ledger.set(i, unknown)
	found, err := decode(t.then(ctx, request{method: http.MethodPost, url: t.config.BaseURL + "/media/seal/" + i.id, want: http.StatusOK}))
	if err != nil {
		return err
	}
	if found.Temp {
		return fmt.Errorf("%w: %s was sealed and is a draft", errContent, i.id)
	}
	t.ledger.set(i, sealed)
	return nil
}

// uploadAndSeal uploads, compares, seals and compares. One in four items is deleted again.
func (t *Tenant) uploadAndSeal(ctx context.Context) error {
	i, made, err := t.upload(ctx, "file.bin", randomBytes(smallFile))
	if err != nil {
		return err
	}
	defer t.ledger.release(i)
	if err := t.fetch(ctx, i, made); err != nil {
		return err
	}
	if err := t.seal(ctx, i); err != nil {
		return err
	}
	if mathrand.IntN(4) > 0 {
		return nil
	}
	t.ledger.set(i, unknown)
	_, err = t.then(ctx, request{method: http.MethodDelete, url: t.config.BaseURL + "/media/delete/" + i.id, want: http.StatusOK, repeated: http.StatusNotFound})
	if err != nil {
		return err
	}
	t.ledger.set(i, deleted)
	gone := t.get(i.id)
	gone.want = http.StatusNotFound
	_, err = t.then(ctx, gone)
	return err
}

// fetch downloads an item and compares it.
func (t *Tenant) fetch(ctx context.Context, i *item, found document) error {
	got, err := t.then(ctx, found.original())
	if err != nil {
		return err
	}
	return i.compare(got)
}

// picture uploads a picture, whose thumbnail an image worker makes.
func (t *Tenant) picture(ctx context.Context) error {
	painted := image.NewRGBA(image.Rect(0, 0, 160, 120))
	shade := uint8(mathrand.Uint32())
	for x := range 160 {
		for y := range 120 {
			painted.Set(x, y, color.RGBA{R: uint8(x), G: uint8(y), B: shade, A: 255})
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, painted, nil); err != nil {
		return err
	}
	i, made, err := t.upload(ctx, "picture.jpg", file.Bytes())
	if err != nil {
		return err
	}
	defer t.ledger.release(i)
	// Without a thumbnail the item is stored all the same: a picture may be broken.
	if made.Thumbnail != "" {
		if _, err := t.then(ctx, request{method: http.MethodGet, url: made.Thumbnail, want: http.StatusOK}); err != nil {
			return err
		}
	}
	return t.seal(ctx, i)
}

// resumable uploads in two parts. After a broken connection it asks how much has arrived and goes on there.
func (t *Tenant) resumable(ctx context.Context) error {
	data := randomBytes(tusFile)
	version := []string{"Tus-Resumable", "1.0.0"}
	made, err := t.do(ctx, request{
		method: http.MethodPost, url: t.config.BaseURL + "/media/create/resumable",
		header: append(version, "Upload-Length", strconv.Itoa(len(data))), want: http.StatusCreated,
	})
	if err != nil {
		return err
	}
	location := made.Header.Get("Location")
	var i *item
	offset, resumed := 0, 0
	for offset < len(data) {
		end := min(len(data), offset+tusFile/2)
		_, err := t.then(ctx, request{
			method: http.MethodPatch, url: location, body: data[offset:end], want: http.StatusNoContent, resumes: true,
			header: append(version, "Upload-Offset", strconv.Itoa(offset), "Content-Type", "application/offset+octet-stream"),
			acknowledge: func(_ answer, p *phase) {
				if end == len(data) {
					i = t.ledger.add(path.Base(location), data, p)
				}
			},
		})
		if err == nil {
			offset = end
			continue
		}
		if resumed++; resumed > maxResumes {
			err = fmt.Errorf("a resumable upload did not end after %d attempts: %w", resumed, err)
			t.ledger.fail(err)
			return err
		}
		select {
		case <-time.After(t.config.Retry):
		case <-ctx.Done():
			return ctx.Err()
		}
		head, err := t.then(ctx, request{method: http.MethodHead, url: location, header: version, want: http.StatusOK})
		if err != nil {
			return err
		}
		if offset, err = strconv.Atoi(head.Header.Get("Upload-Offset")); err != nil {
			return fmt.Errorf("%w: HEAD %s has no offset", errContent, location)
		}
	}
	if i == nil { // the answer to the last part was lost
		return nil
	}
	defer t.ledger.release(i)
	found, err := decode(t.then(ctx, t.get(i.id)))
	if err != nil {
		return err
	}
	if err := t.fetch(ctx, i, found); err != nil {
		return err
	}
	return t.seal(ctx, i)
}

// read lists, and reads one item of those that exist.
func (t *Tenant) read(ctx context.Context) error {
	if _, err := t.do(ctx, request{method: http.MethodGet, url: t.config.BaseURL + "/media/get?limit=10", want: http.StatusOK}); err != nil {
		return err
	}
	i := t.ledger.pick()
	if i == nil {
		return nil
	}
	found, err := decode(t.then(ctx, t.get(i.id)))
	if err != nil {
		return err
	}
	return t.fetch(ctx, i, found)
}

func (t *Tenant) totals(ctx context.Context) error {
	if _, err := t.do(ctx, request{method: http.MethodGet, url: t.config.BaseURL + "/media/get/count", want: http.StatusOK}); err != nil {
		return err
	}
	_, err := t.then(ctx, request{method: http.MethodGet, url: t.config.BaseURL + "/media/get/size", want: http.StatusOK})
	return err
}

var callID atomic.Int64

// tool is the request for a call of a tool.
func (t *Tenant) tool(name string, arguments any) (request, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": callID.Add(1), "method": "tools/call",
		"params": map[string]any{"name": name, "arguments": arguments},
	})
	return request{
		method: http.MethodPost, url: t.config.MCPURL, body: body, want: http.StatusOK,
		header: []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18"},
	}, err
}

// succeeded checks that a tool has a result.
func succeeded(got answer, err error) error {
	if err != nil {
		return err
	}
	var called toolAnswer
	if err := json.Unmarshal(got.Body, &called); err != nil || called.Result.IsError || called.Error != nil || called.Result.StructuredContent == nil {
		return fmt.Errorf("%w: a tool answered %.300s", errContent, got.Body)
	}
	return nil
}

func (t *Tenant) callTools(ctx context.Context) error {
	list, err := t.tool("list_media", map[string]any{"limit": 5})
	if err != nil {
		return err
	}
	if err := succeeded(t.do(ctx, list)); err != nil {
		return err
	}
	i := t.ledger.pick()
	if i == nil {
		return nil
	}
	one, err := t.tool("get_media", map[string]any{"mediaId": i.id})
	if err != nil {
		return err
	}
	return succeeded(t.then(ctx, one))
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data) // never fails, by its contract
	return data
}
