package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"mediastack.dev/hack/test/chaos/faults"
)

// partSize is where the runtime begins to send a file in parts.
const partSize = 8 << 20

// operation is one thing that clients do.
type operation struct {
	name   string
	weight int
	run    func(ctx context.Context, c *client)
}

var operations = []operation{
	{"upload small", 44, func(ctx context.Context, c *client) { c.file(ctx, "small", c.draw.Int64N(200_000), false) }},
	{"upload nothing", 1, func(ctx context.Context, c *client) { c.file(ctx, "empty", 0, false) }},
	{"upload at the part limit", 3, func(ctx context.Context, c *client) { c.file(ctx, "part limit", partSize+c.draw.Int64N(3)-1, false) }},
	{"upload at twice the part limit", 2, func(ctx context.Context, c *client) { c.file(ctx, "two parts", 2*partSize+c.draw.Int64N(3)-1, false) }},
	{"upload in parts", 3, func(ctx context.Context, c *client) { c.file(ctx, "in parts", 20<<20+c.draw.Int64N(20<<20), false) }},
	{"upload an image", 12, func(ctx context.Context, c *client) { c.image(ctx) }},
	{"abort an upload", 5, func(ctx context.Context, c *client) { c.file(ctx, "aborted", c.draw.Int64N(200_000), true) }},
	{"abort an upload in parts", 2, func(ctx context.Context, c *client) {
		c.file(ctx, "aborted in parts", 9<<20+c.draw.Int64N(20<<20), true)
	}},
	{"delete", 10, func(ctx context.Context, c *client) { c.each(ctx, c.delete) }},
	{"restore", 8, func(ctx context.Context, c *client) { c.each(ctx, c.restore) }},
	{"seal again", 4, func(ctx context.Context, c *client) { c.each(ctx, c.seal) }},
	{"seal and delete at once", 4, func(ctx context.Context, c *client) { c.each(ctx, c.race) }},
	{"read", 14, func(ctx context.Context, c *client) {
		c.each(ctx, func(ctx context.Context, i *item) { c.read(ctx, i) })
	}},
	{"list", 4, func(ctx context.Context, c *client) { c.look(ctx, "/media/get?limit=20") }},
	{"count", 2, func(ctx context.Context, c *client) { c.look(ctx, "/media/get/count") }},
	{"totals", 2, func(ctx context.Context, c *client) { c.look(ctx, "/media/get/size") }},
}

// startLoad starts all clients.
func (e *environment) startLoad(ctx context.Context, m *model, o options, all *sync.WaitGroup) {
	for n := range o.Clients {
		c := &client{env: e, model: m, tenant: e.tenants[n%len(e.tenants)], number: n, draw: newDraw(o.Seed, uint64(100+n)), http: newHTTP()}
		all.Go(func() { c.work(ctx) })
	}
}

func newDraw(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// newHTTP makes a client that sends every request once: net/http would repeat a
// delete whose connection broke, and the second answer would hide the first.
func newHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// client is one user of one tenant's key.
type client struct {
	env    *environment
	model  *model
	tenant *tenant
	number int
	draw   *rand.Rand
	http   *http.Client
	made   int
	items  []*item // of its own
	jobs   []*job  // those that have not ended
}

func (c *client) work(ctx context.Context) {
	sum, all := 0, slices.Concat(operations, resumables, batches, fetches, pictures)
	for _, o := range all {
		sum += o.weight
	}
	for ctx.Err() == nil {
		n := c.draw.IntN(sum)
		for _, o := range all {
			if n -= o.weight; n < 0 {
				o.run(ctx, c)
				break
			}
		}
	}
}

// pickReplica returns one of the runtimes.
func (c *client) pickReplica() *replica { return c.env.replicas[c.draw.IntN(len(c.env.replicas))] }

// each does something to one of the client's items.
func (c *client) each(ctx context.Context, do func(context.Context, *item)) {
	if len(c.items) > 0 {
		do(ctx, c.items[c.draw.IntN(len(c.items))])
	}
}

// answer is what came back; status 0 when nothing did, and nobody knows what was done.
type answer struct {
	status int
	body   []byte
	header http.Header
	err    error
}

func (a answer) String() string {
	if a.status == 0 {
		return fmt.Sprintf("no answer: %v", a.err)
	}
	if a.status >= 400 {
		return fmt.Sprintf("%d %s", a.status, bytes.TrimSpace(a.body))
	}
	return fmt.Sprint(a.status)
}

func (c *client) send(ctx context.Context, method, address, contentType string, body io.Reader, length int64) answer {
	return c.exchange(ctx, method, address, http.Header{}, contentType, body, length)
}

func (c *client) exchange(ctx context.Context, method, address string, header http.Header, contentType string, body io.Reader, length int64) answer {
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return answer{err: err}
	}
	request.Header = header
	if body != nil {
		request.ContentLength = length
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("x-service-apikey", c.tenant.APIKey)
	response, err := c.http.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{err: err}
	}
	return answer{status: response.StatusCode, body: text, header: response.Header}
}

// ask sends a request and looks at what no answer may ever be.
func (c *client) ask(ctx context.Context, i *item, method, path string) answer {
	replica := c.pickReplica()
	got := c.send(context.WithoutCancel(ctx), method, replica.BaseURL+path, "", nil, 0)
	what, _, _ := strings.Cut(path, "?")
	if i != nil {
		what = strings.TrimSuffix(what, "/"+i.id)
	}
	c.recordAnswer(method+" "+what, i, got)
	if i != nil {
		i.note(c.model.begun, "%s %s at %s: %s", method, path, replica.name, got)
	}
	return got
}

func (c *client) recordAnswer(what string, i *item, got answer) {
	if got.status == 0 {
		c.model.count(what + ": none")
	} else {
		c.model.count(fmt.Sprintf("%s: %d", what, got.status))
	}
	if wrong := got.wrong(strings.HasSuffix(what, "PATCH /media/create/resumable")); wrong != "" {
		c.model.wrongAnswer(i, got.header.Get("X-Request-Id"), "%s was answered %s: %s", what, got, wrong)
	}
}

// wrong returns what no answer may be, whatever is broken; empty when the answer may be.
// A store that is away is 503, with a Retry-After. offsets reports whether the
// request names an offset: a client that was cut off may name a wrong one.
func (a answer) wrong(offsets bool) string {
	switch {
	case a.status == http.StatusConflict && offsets:
	case slices.Contains([]int{400, 401, 403, 405, 409, 412, 415, 460, 499}, a.status):
		return "the request was right"
	case a.status >= 500 && a.status != http.StatusServiceUnavailable:
		return "the service failed"
	case slices.Contains([]int{423, 429, 503}, a.status) && a.header.Get("Retry-After") == "":
		return "it lacks Retry-After"
	}
	return ""
}

// file uploads random bytes, and goes on with the draft.
func (c *client) file(ctx context.Context, kind string, size int64, abort bool) {
	seed := [32]byte{byte(c.number), byte(c.made), byte(c.made >> 8), byte(c.made >> 16), byte(c.draw.Uint32())}
	content := func() io.Reader { return io.LimitReader(rand.NewChaCha8(seed), size) }
	cutAt := int64(-1)
	if abort {
		cutAt = c.draw.Int64N(size + 1)
	}
	c.create(ctx, &item{kind: kind, bytes: size}, "crash.bin", content, cutAt)
}

func (c *client) image(ctx context.Context) {
	shown, file := drawPhoto(c.draw)
	c.create(ctx, &item{kind: imageFile, bytes: int64(len(file)), photo: &shown}, "crash.jpg", func() io.Reader { return bytes.NewReader(file) }, -1)
}

var errAborted = errors.New("the client gave up")

// create uploads the file of an item, of which the kind and the bytes are known, and continues with the draft. The client
// disconnects after cutAt bytes of the file; -1 = it does not.
func (c *client) create(ctx context.Context, i *item, name string, content func() io.Reader, cutAt int64) {
	c.made++
	i.tenant, i.public, i.caption = c.tenant, c.draw.IntN(2) == 0, fmt.Sprintf("client %d upload %d", c.number, c.made)
	digest := sha256.New()
	_, _ = io.Copy(digest, content())
	i.sum = hex.EncodeToString(digest.Sum(nil))

	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	access := "private"
	if i.public {
		access = "public"
	}
	for field, value := range map[string]string{"access": access, "caption": i.caption, "group": fmt.Sprintf("g%d", c.made%5)} {
		_ = form.WriteField(field, value)
	}
	_, _ = form.CreateFormFile("file", name)
	tail := "\r\n--" + form.Boundary() + "--\r\n"
	file := content()
	if cutAt >= 0 {
		file = io.MultiReader(io.LimitReader(file, cutAt), abortedReader{})
	}
	replica := c.pickReplica()
	i.begun = time.Now()
	got := c.send(context.WithoutCancel(ctx), http.MethodPost, replica.BaseURL+"/media/create", form.FormDataContentType(),
		io.MultiReader(&head, file, strings.NewReader(tail)), int64(head.Len())+i.bytes+int64(len(tail)))
	c.recordAnswer("POST /media/create", nil, got)
	if got.status == http.StatusRequestEntityTooLarge {
		c.makeRoom(ctx)
		return
	}
	if got.status != http.StatusCreated {
		return // no id was answered: what may exist is a draft that no client can seal
	}
	var document struct {
		MediaID string `json:"mediaId"`
		Size    int64  `json:"size"`
		Temp    bool   `json:"temp"`
	}
	if err := json.Unmarshal(got.body, &document); err != nil || document.MediaID == "" || !document.Temp {
		c.model.wrong(nil, "an upload was answered %s", got.body)
		return
	}
	i.id = document.MediaID
	i.note(c.model.begun, "POST /media/create at %s: %s", replica.name, got)
	if cutAt >= 0 {
		c.model.wrong(i, "an upload of which %d of %d bytes were sent was acknowledged", cutAt, i.bytes)
	}
	c.items = append(c.items, i)
	c.model.add(i)
	c.continueDraft(ctx, i)
}

type abortedReader struct{}

func (abortedReader) Read([]byte) (int, error) { return 0, errAborted }

// continueDraft decides what becomes of a draft. Most are sealed, some are left to the purge.
func (c *client) continueDraft(ctx context.Context, i *item) {
	switch n := c.draw.IntN(100); {
	case n < 60:
		c.seal(ctx, i)
		if n < 15 {
			c.read(ctx, i)
		}
	case n < 70:
		c.delete(ctx, i)
	case n < 75:
		c.race(ctx, i)
	case n < 80:
		// About as old as drafts get: a race against the purge.
		faults.Sleep(ctx, faults.Duration(c.draw, 3500*time.Millisecond, 4500*time.Millisecond))
		c.seal(ctx, i)
	}
}

func (c *client) seal(ctx context.Context, i *item) {
	got := c.ask(ctx, i, http.MethodPost, "/media/seal/"+i.id)
	c.checkNotPurged(i, got.status)
	if wrong := i.sealAnswered(got.status); wrong != "" {
		c.model.wrong(i, "seal: %s", wrong)
	}
}

// checkNotPurged holds against a 404 that a draft can't have been purged yet.
func (c *client) checkNotPurged(i *item, status int) {
	if status == http.StatusNotFound && !i.deleteTried && time.Since(i.begun) < draftTTL {
		c.model.wrong(i, "it was acknowledged, and is gone before drafts are purged")
	}
}

func (c *client) delete(ctx context.Context, i *item) {
	got := c.ask(ctx, i, http.MethodDelete, "/media/delete/"+i.id)
	if wrong := i.deleteAnswered(got.status); wrong != "" {
		c.model.wrong(i, "delete: %s", wrong)
	}
}

// restore restores an item, or asks for one that is not deleted.
func (c *client) restore(ctx context.Context, i *item) {
	got := c.ask(ctx, i, http.MethodPost, "/media/restore/"+i.id)
	if wrong := i.restoreAnswered(got.status, c.tenant.undo); wrong != "" {
		c.model.wrong(i, "restore: %s", wrong)
	}
}

// race seals and deletes at the same time.
func (c *client) race(ctx context.Context, i *item) {
	var seal, del answer
	var both sync.WaitGroup
	a, b := c.pickReplica(), c.pickReplica()
	both.Go(func() {
		seal = c.send(context.WithoutCancel(ctx), http.MethodPost, a.BaseURL+"/media/seal/"+i.id, "", nil, 0)
	})
	both.Go(func() {
		del = c.send(context.WithoutCancel(ctx), http.MethodDelete, b.BaseURL+"/media/delete/"+i.id, "", nil, 0)
	})
	both.Wait()
	c.recordAnswer("raced seal", i, seal)
	c.recordAnswer("raced delete", i, del)
	i.note(c.model.begun, "raced: seal at %s: %s, delete at %s: %s", a.name, seal, b.name, del)
	if wrong := i.raced(seal.status, del.status); wrong != "" {
		c.model.wrong(i, "seal and delete at once: %s", wrong)
	}
}

// makeRoom deletes a few items when the cap is reached.
func (c *client) makeRoom(ctx context.Context) {
	for range min(4, len(c.items)) {
		n := c.draw.IntN(len(c.items))
		c.delete(ctx, c.items[n])
		// It stays in the model; there is nothing more to do with it.
		c.items[n] = c.items[len(c.items)-1]
		c.items = c.items[:len(c.items)-1]
	}
	faults.Sleep(ctx, 50*time.Millisecond)
}

func (c *client) look(ctx context.Context, path string) {
	if got := c.ask(ctx, nil, http.MethodGet, path); got.status != 200 && got.status != 0 && got.status < 500 && got.status != 429 {
		c.model.wrong(nil, "%s was answered %s", path, got)
	}
}

// document is a media document as far as it is looked at.
type document struct {
	MediaID   string `json:"mediaId"`
	MimeType  string `json:"mimeType"`
	Size      int64  `json:"size"`
	File      string `json:"file"`
	Thumbnail string `json:"thumbnail"`
	Caption   string `json:"caption"`
	Temp      bool   `json:"temp"`
}

// read reads an item and its file; status 0 when it could not be read to the end.
func (c *client) read(ctx context.Context, i *item) (status int, found document) {
	want := i.expected()
	got := c.ask(ctx, i, http.MethodGet, "/media/get/"+i.id)
	if wrong := want.check(got.status); wrong != "" {
		c.model.wrong(i, "read: %s", wrong)
	}
	if got.status != 200 {
		return got.status, found
	}
	if err := json.Unmarshal(got.body, &found); err != nil || found.MediaID != i.id || !i.mayHave(found.Caption) {
		c.model.wrong(i, "its document is %s", got.body)
		return got.status, found
	}
	if found.Temp && i.sealed {
		c.model.wrong(i, "it was sealed, and is a draft again")
	}
	whole := c.download(ctx, i, found.File, func(body []byte) string {
		if i.mayBeConverted() && !converted(i, found) && hashOf(body) != i.sum {
			return c.convertedMeanwhile(ctx, i, body)
		}
		if int64(len(body)) != found.Size {
			return fmt.Sprintf("its file has %d bytes, its document says %d", len(body), found.Size)
		}
		if sum := hashOf(body); !converted(i, found) && sum != i.sum {
			return "its file's SHA-256 is " + sum
		}
		return ""
	})
	if found.Thumbnail != "" {
		whole = c.thumbnail(ctx, i, found.Thumbnail) && whole
	}
	if !whole {
		return 0, found
	}
	return got.status, found
}

// thumbnail gets a thumbnail; false when it did not come whole. One that was to be made may turn out not to be: no worker may have made it.
func (c *client) thumbnail(ctx context.Context, i *item, address string) bool {
	got := c.send(context.WithoutCancel(ctx), http.MethodGet, address, "", nil, 0)
	if got.status == http.StatusNotFound && i.mayBeConverted() {
		again := c.ask(ctx, i, http.MethodGet, "/media/get/"+i.id)
		var found document
		if again.status != http.StatusOK || json.Unmarshal(again.body, &found) == nil && found.Thumbnail == "" {
			c.model.count("thumbnails that could not be made")
			return false
		}
	}
	return c.judge(i, address, got, func(body []byte) string {
		if len(body) == 0 {
			return "its thumbnail is empty"
		}
		return ""
	})
}

// hashOf returns the SHA-256 of a file, as items have it.
func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// mayBeConverted reports whether the file of an item may become a conversion while it is read.
func (i *item) mayBeConverted() bool { return i.kind == imageFile && i.tenant.later }

const (
	// notified is in how many reads of a document, with a pause before each other one, a replica has learned of a conversion that another one has
	// made, or can serve from its cache no longer: no conversion waits for the caches of items (docs/decisions/0022).
	notified      = 50
	notifiedPause = 20 * time.Millisecond
)

// convertedMeanwhile returns what is wrong with a file that is not what was sent, although its document said so before: the document says
// soon that it is a conversion of this size.
func (c *client) convertedMeanwhile(ctx context.Context, i *item, body []byte) string {
	for read := 1; ; read++ {
		got := c.ask(ctx, i, http.MethodGet, "/media/get/"+i.id)
		if got.status != http.StatusOK {
			return "" // its document cannot be read now, or it was deleted meanwhile
		}
		var found document
		err := json.Unmarshal(got.body, &found)
		switch {
		case err == nil && converted(i, found) && found.Size == int64(len(body)):
			c.model.count("files that were converted while they were read")
			return ""
		case err != nil, converted(i, found), read == notified:
			return fmt.Sprintf("its file has %d bytes and the SHA-256 %s, and afterwards its document is %s", len(body), hashOf(body), got.body)
		}
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(notifiedPause):
		}
	}
}

// converted reports whether the file is a conversion and not what was sent.
func converted(i *item, d document) bool { return i.kind == imageFile && d.MimeType == "image/webp" }

// download gets a file and judges it; false when it did not come whole.
func (c *client) download(ctx context.Context, i *item, address string, judge func([]byte) string) bool {
	return c.judge(i, address, c.send(context.WithoutCancel(ctx), http.MethodGet, address, "", nil, 0), judge)
}

// judge judges the answer to a request for a file; false when it did not come whole.
func (c *client) judge(i *item, address string, got answer, judge func([]byte) string) bool {
	c.recordAnswer("GET /media/file", i, got)
	i.note(c.model.begun, "GET %s: %s", strings.SplitN(address, "?", 2)[0], got.describe())
	if wrong := i.expected().check(got.status); wrong != "" {
		c.model.wrong(i, "download: %s", wrong)
	}
	if got.status != 200 {
		return false
	}
	if wrong := judge(got.body); wrong != "" {
		c.model.wrong(i, "download: %s", wrong)
	}
	return true
}

// describe is String without a file's bytes.
func (a answer) describe() string {
	if a.status == 200 {
		return fmt.Sprintf("200, %d bytes", len(a.body))
	}
	return a.String()
}

// makePictures makes images worth a thumbnail.
func makePictures() [][]byte {
	var pictures [][]byte
	for n := range 10 {
		width, height := 150+110*n, 1100-90*n
		picture := image.NewNRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				picture.SetNRGBA(x, y, color.NRGBA{R: uint8(x), G: uint8(y), B: uint8(x*y>>6 + n*20), A: 255})
			}
		}
		var file bytes.Buffer
		if n%3 == 2 {
			_ = png.Encode(&file, picture)
		} else {
			_ = jpeg.Encode(&file, picture, nil)
		}
		pictures = append(pictures, file.Bytes())
	}
	return pictures
}
