package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/hack/test/chaos/faults"
)

// resumables are uploads by TUS: they go to either runtime, are cut anywhere, and are resumed after
// every kill.
var resumables = []operation{
	{"resumable upload", 10, func(ctx context.Context, c *client) {
		c.resumableUpload(ctx, &item{kind: "resumable"}, c.randomBytes(c.draw.IntN(200_000)))
	}},
	{"resumable upload of nothing", 1, func(ctx context.Context, c *client) { c.resumableUpload(ctx, &item{kind: "resumable, empty"}, nil) }},
	{"resumable upload in S3 parts", 5, func(ctx context.Context, c *client) {
		c.resumableUpload(ctx, &item{kind: "resumable, in S3 parts"}, c.randomBytes(4<<20+c.draw.IntN(24<<20)))
	}},
	{"resumable upload of an image", 4, func(ctx context.Context, c *client) {
		shown, file := drawPhoto(c.draw)
		c.resumableUpload(ctx, &item{kind: imageFile, photo: &shown}, file)
	}},
}

// stuckTimeout is how long a client resumes an upload. No outage is nearly as long; an upload that
// does not end within it is stuck.
const stuckTimeout = 90 * time.Second

func (c *client) randomBytes(size int) []byte {
	var seed [32]byte
	for n := range seed {
		seed[n] = byte(c.draw.Uint32())
	}
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}

// resumable is what a client knows about its upload.
type resumable struct {
	item     *item
	file     []byte
	deferred bool // its length was not said yet
	offset   int  // as the service said last
	most     int  // the most that it ever said
	finishes bool // a request was sent that could have completed it
	noRoom   int  // how often the quota had no room for a length that was declared late
}

// whole reports whether an answer says that the upload is complete.
func (r *resumable) whole() bool { return !r.deferred && r.offset == len(r.file) }

// resumableUpload uploads the file of an item, of which the kind is known, by TUS, and goes on with the draft.
func (c *client) resumableUpload(ctx context.Context, i *item, file []byte) {
	c.made++
	digest := sha256.Sum256(file)
	i.tenant, i.bytes, i.sum, i.public = c.tenant, int64(len(file)), hex.EncodeToString(digest[:]), c.draw.IntN(2) == 0
	i.caption = fmt.Sprintf("client %d upload %d", c.number, c.made)
	u := &resumable{item: i, file: file, deferred: c.draw.IntN(5) == 0}
	// An upload is completed or abandoned, also when the run ends.
	ctx = context.WithoutCancel(ctx)
	if !c.createResumable(ctx, u) {
		return
	}
	abandon := -1
	if c.draw.IntN(10) == 0 {
		abandon = c.draw.IntN(len(file) + 1)
	}
	for until := time.Now().Add(stuckTimeout); ; {
		switch {
		case u.whole():
			c.acknowledged(ctx, u)
			return
		case abandon >= 0 && u.offset >= abandon && !u.finishes, u.noRoom > 20:
			c.abandon(ctx, u)
			return
		case time.Now().After(until):
			c.model.wrong(i, "a resumable upload is stuck at %d of %d bytes", u.offset, len(file))
			return
		}
		if !c.sendChunk(ctx, u) && !c.queryOffset(ctx, u) {
			return
		}
	}
}

// createResumable creates the upload, perhaps with its first bytes.
func (c *client) createResumable(ctx context.Context, u *resumable) bool {
	access := "private"
	if u.item.public {
		access = "public"
	}
	var metadata []string
	for key, value := range map[string]string{"filename": "crash.bin", "access": access, "caption": u.item.caption, "group": fmt.Sprintf("g%d", c.made%5)} {
		metadata = append(metadata, key+" "+base64.StdEncoding.EncodeToString([]byte(value)))
	}
	header := map[string]string{"Upload-Metadata": strings.Join(metadata, ",")}
	if u.deferred {
		header["Upload-Defer-Length"] = "1"
	} else {
		header["Upload-Length"] = strconv.Itoa(len(u.file))
	}
	u.item.begun = time.Now()
	n := 0
	if c.draw.IntN(3) == 0 {
		n = c.draw.IntN(len(u.file) + 1)
	}
	replica := c.pickReplica()
	got := c.tus(ctx, http.MethodPost, replica.BaseURL+"/media/create/resumable", header, u.file[:n], -1)
	c.recordAnswer("POST /media/create/resumable", nil, got)
	if got.status == http.StatusRequestEntityTooLarge {
		c.makeRoom(ctx)
		return false
	}
	location := got.header.Get("Location")
	if location == "" {
		if got.status == http.StatusCreated {
			c.model.wrong(nil, "an upload was created without a Location")
		}
		return false // nobody knows of it; it expires
	}
	u.item.id = location[strings.LastIndexByte(location, '/')+1:]
	u.item.note(c.model.begun, "POST /media/create/resumable of %d bytes, %d of them with it, at %s: %s", len(u.file), n, replica.name, got)
	u.finishes = !u.deferred && n == len(u.file)
	if got.status == http.StatusCreated {
		return c.expectOffset(u, got, n)
	}
	return c.queryOffset(ctx, u)
}

// sendChunk sends the next bytes, and reports whether the offset after them is known.
func (c *client) sendChunk(ctx context.Context, u *resumable) bool {
	rest := len(u.file) - u.offset
	n := rest
	if c.draw.IntN(3) > 0 && rest > 0 {
		n = 1 + c.draw.IntN(min(rest, 12<<20))
	}
	cut := -1
	if c.draw.IntN(4) == 0 {
		cut = c.draw.IntN(n + 1)
	}
	header := map[string]string{"Upload-Offset": strconv.Itoa(u.offset)}
	declares := u.deferred && (n == rest || c.draw.IntN(3) == 0)
	if declares {
		header["Upload-Length"] = strconv.Itoa(len(u.file))
	}
	if n == rest && (declares || !u.deferred) && !u.finishes {
		u.finishes, u.item.begun = true, time.Now()
	}
	replica := c.pickReplica()
	got := c.tus(ctx, http.MethodPatch, replica.BaseURL+"/media/create/resumable/"+u.item.id, header, u.file[u.offset:u.offset+n], cut)
	c.recordAnswer("PATCH /media/create/resumable", u.item, got)
	u.item.note(c.model.begun, "PATCH of %d bytes at %d, cut at %d, at %s: %s", n, u.offset, cut, replica.name, got)
	if got.status != http.StatusNoContent {
		if got.status == http.StatusRequestEntityTooLarge {
			// A length that is said late may not fit under the cap any more.
			u.noRoom++
			c.makeRoom(ctx)
		}
		faults.Sleep(ctx, faults.Duration(c.draw, time.Millisecond, 200*time.Millisecond))
		return false
	}
	if cut >= 0 && cut < n {
		c.model.wrong(u.item, "a PATCH of %d bytes was taken, and %d were sent", n, cut)
	}
	u.deferred = u.deferred && !declares
	return c.expectOffset(u, got, u.offset+n)
}

// expectOffset takes an answer that must say a certain offset.
func (c *client) expectOffset(u *resumable, got answer, want int) bool {
	if want > 0 || got.header.Get("Upload-Offset") != "" {
		if got.header.Get("Upload-Offset") != strconv.Itoa(want) {
			c.model.wrong(u.item, "the offset is %q after %d bytes", got.header.Get("Upload-Offset"), want)
		}
	}
	u.offset, u.most = want, max(u.most, want)
	c.document(u, got)
	return true
}

// document looks at what the last answer must carry, and no other may.
func (c *client) document(u *resumable, got answer) {
	id, text := got.header.Get("X-Service-Media-Id"), got.header.Get("X-Service-Media")
	if !u.whole() {
		if id != "" || text != "" {
			c.model.wrong(u.item, "an upload that is not complete has the document %s %s", id, text)
		}
		return
	}
	var found document
	if err := json.Unmarshal([]byte(text), &found); err != nil || id != u.item.id || found.MediaID != id || found.Caption != u.item.caption {
		c.model.wrong(u.item, "a complete upload has the document %q %q", id, text)
	}
}

// queryOffset asks for the offset until it hears it; false when the upload is gone for good.
func (c *client) queryOffset(ctx context.Context, u *resumable) bool {
	for until := time.Now().Add(stuckTimeout); time.Now().Before(until); faults.Sleep(ctx, faults.Duration(c.draw, time.Millisecond, 200*time.Millisecond)) {
		replica := c.pickReplica()
		got := c.tus(ctx, http.MethodHead, replica.BaseURL+"/media/create/resumable/"+u.item.id, nil, nil, -1)
		c.recordAnswer("HEAD /media/create/resumable", u.item, got)
		u.item.note(c.model.begun, "HEAD at %s: %s, offset %s", replica.name, got, got.header.Get("Upload-Offset"))
		switch got.status {
		case http.StatusOK:
			offset, err := strconv.Atoi(got.header.Get("Upload-Offset"))
			if length := got.header.Get("Upload-Length"); err != nil || offset > len(u.file) || length != "" && length != strconv.Itoa(len(u.file)) {
				c.model.wrong(u.item, "HEAD answered offset %s of %s", got.header.Get("Upload-Offset"), length)
				return false
			}
			u.deferred = got.header.Get("Upload-Defer-Length") == "1"
			if offset < u.most {
				// S3 lost what it had, or a lock was lost: the client sends it again.
				c.model.count("offsets that went back")
			}
			u.offset, u.most = offset, offset
			c.document(u, got)
			return true
		case http.StatusNotFound:
			// It was committed, unheard, and purged as a draft; nothing else takes it away.
			if !u.finishes || time.Since(u.item.begun) < draftTTL {
				c.model.wrong(u.item, "a resumable upload is gone")
			}
			return false
		}
	}
	c.model.wrong(u.item, "no runtime reports the offset of a resumable upload")
	return false
}

// acknowledged continues with an upload that was answered as complete.
func (c *client) acknowledged(ctx context.Context, u *resumable) {
	i := u.item
	c.model.count("resumable uploads acknowledged")
	c.items = append(c.items, i)
	c.model.add(i)
	if c.draw.IntN(4) == 0 { // a client that did not hear it sends the end again
		replica := c.pickReplica()
		got := c.tus(ctx, http.MethodPatch, replica.BaseURL+"/media/create/resumable/"+i.id, map[string]string{"Upload-Offset": strconv.Itoa(len(u.file))}, nil, -1)
		c.recordAnswer("repeated PATCH", i, got)
		i.note(c.model.begun, "PATCH again at %s: %s", replica.name, got)
		if got.status == http.StatusNoContent {
			c.expectOffset(u, got, len(u.file))
		}
		c.checkNotPurged(i, got.status)
	}
	c.continueDraft(ctx, i)
}

// abandon ends an upload, or leaves it to expire.
func (c *client) abandon(ctx context.Context, u *resumable) {
	c.model.count("resumable uploads abandoned")
	if c.draw.IntN(2) == 0 {
		return
	}
	replica := c.pickReplica()
	path := "/media/create/resumable/" + u.item.id
	got := c.tus(ctx, http.MethodDelete, replica.BaseURL+path, nil, nil, -1)
	c.recordAnswer("DELETE /media/create/resumable", u.item, got)
	u.item.note(c.model.begun, "DELETE at %s: %s", replica.name, got)
	if got.status != http.StatusNoContent {
		return
	}
	if again := c.tus(ctx, http.MethodHead, c.pickReplica().BaseURL+path, nil, nil, -1); again.status == http.StatusOK {
		c.model.wrong(u.item, "an upload that was ended is at %s", again.header.Get("Upload-Offset"))
	}
}

// tus sends one request. cutAt is after how many bytes of the body the client goes away;
// -1 = it does not.
func (c *client) tus(ctx context.Context, method, address string, header map[string]string, body []byte, cutAt int) answer {
	var from io.Reader
	if method == http.MethodPatch || len(body) > 0 {
		from = bytes.NewReader(body)
		if cutAt >= 0 && cutAt < len(body) {
			from = io.MultiReader(bytes.NewReader(body[:cutAt]), abortedReader{})
		}
	}
	all := http.Header{"Tus-Resumable": {"1.0.0"}}
	for name, value := range header {
		all.Set(name, value)
	}
	return c.exchange(ctx, method, address, all, "application/offset+octet-stream", from, int64(len(body)))
}
