package upgrade

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv/wait"
)

// tenant uploads, seals and reads over every interface. It sends no request again.
type tenant struct {
	base, key string

	mu       sync.Mutex
	rounds   map[string]int // by interface
	requests int
	failures []error
	sealed   map[string][]byte // by id
}

// pace is the pause between two rounds of an interface.
const pace = 150 * time.Millisecond

// begin starts the load. end waits for the requests that are under way.
func (u *tenant) begin(ctx context.Context) (end func()) {
	u.rounds, u.sealed = map[string]int{}, map[string][]byte{}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for name, round := range map[string]func(context.Context) error{"rest": u.rest, "mcp": u.mcp, "tus": u.tus} {
		workers.Go(func() {
			pause := time.NewTicker(pace) //nolint:forbidigo // the pace of the load
			defer pause.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-pause.C:
				}
				err := round(context.WithoutCancel(ctx))
				u.mu.Lock()
				u.rounds[name]++
				if err != nil {
					u.failures = append(u.failures, fmt.Errorf("%s: %w", name, err))
				}
				u.mu.Unlock()
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); workers.Wait() })
}

// proceeds waits until each interface has had more rounds.
func (u *tenant) proceeds(t *testing.T, rounds int) {
	t.Helper()
	before := map[string]int{}
	u.mu.Lock()
	for _, name := range []string{"rest", "mcp", "tus"} {
		before[name] = u.rounds[name]
	}
	u.mu.Unlock()
	wait.Until(t, "clients go on", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		for name, n := range before {
			if u.rounds[name] < n+rounds {
				return false
			}
		}
		return true
	})
}

// send sends a request, which must be answered with the status.
func (u *tenant) send(ctx context.Context, status int, method, address string, body []byte, header ...string) (http.Header, []byte, error) {
	u.mu.Lock()
	u.requests++
	u.mu.Unlock()
	if strings.HasPrefix(address, "/") {
		address = u.base + address
	}
	got, err := exchange.Expect(ctx, http.DefaultClient, status, method, address, bytes.NewReader(body), append(header, "x-service-apikey", u.key)...)
	return got.Header, got.Body, err
}

func content() []byte {
	data := make([]byte, 3000)
	_, _ = rand.Read(data)
	return data
}

// seal seals a draft, and reads it.
func (u *tenant) seal(ctx context.Context, id string, data []byte) error {
	if _, _, err := u.send(ctx, http.StatusOK, http.MethodPost, "/media/seal/"+id, nil); err != nil {
		return err
	}
	u.mu.Lock()
	u.sealed[id] = data
	u.mu.Unlock()
	return u.has(ctx, id, data)
}

// has returns an error unless an item has its file.
func (u *tenant) has(ctx context.Context, id string, data []byte) error {
	_, text, err := u.send(ctx, http.StatusOK, http.MethodGet, "/media/get/"+id, nil)
	if err != nil {
		return err
	}
	var document struct{ File string }
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	_, got, err := u.send(ctx, http.StatusOK, http.MethodGet, document.File, nil)
	if err == nil && !bytes.Equal(got, data) {
		err = fmt.Errorf("the file of %s has %d other bytes", id, len(got))
	}
	return err
}

func (u *tenant) rest(ctx context.Context) error {
	data := content()
	body, contentType := exchange.Form("a.bin", data)
	_, text, err := u.send(ctx, http.StatusCreated, http.MethodPost, "/media/create", body, "Content-Type", contentType)
	if err != nil {
		return err
	}
	var draft struct{ MediaID string }
	if err := json.Unmarshal(text, &draft); err != nil {
		return err
	}
	if err := u.seal(ctx, draft.MediaID, data); err != nil {
		return err
	}
	_, _, err = u.send(ctx, http.StatusOK, http.MethodGet, "/media/get?limit=5", nil)
	return err
}

// call calls a tool, and returns its structured content.
func (u *tenant) call(ctx context.Context, tool string, arguments map[string]any) (map[string]any, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	if err != nil {
		return nil, err
	}
	_, text, err := u.send(ctx, http.StatusOK, http.MethodPost, "/mcp", body, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Result struct {
			IsError           bool
			StructuredContent map[string]any
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result.IsError || answer.Result.StructuredContent == nil {
		return nil, fmt.Errorf("%s: %w: %s", tool, err, text)
	}
	return answer.Result.StructuredContent, nil
}

func (u *tenant) mcp(ctx context.Context) error {
	data := content()
	made, err := u.call(ctx, "upload_media", map[string]any{"fileBase64": base64.StdEncoding.EncodeToString(data), "fileName": "a.bin", "mimeType": "application/octet-stream"})
	if err != nil {
		return err
	}
	id, _ := made["mediaId"].(string)
	if _, err := u.call(ctx, "seal_media", map[string]any{"mediaId": id}); err != nil {
		return err
	}
	u.mu.Lock()
	u.sealed[id] = data
	u.mu.Unlock()
	_, err = u.call(ctx, "get_media", map[string]any{"mediaId": id})
	return err
}

// tus uploads in two chunks, which seldom reach the same replica.
func (u *tenant) tus(ctx context.Context) error {
	data := content()
	header, _, err := u.send(ctx, http.StatusCreated, http.MethodPost, "/media/create/resumable", nil, "Tus-Resumable", "1.0.0", "Upload-Length", strconv.Itoa(len(data)))
	if err != nil {
		return err
	}
	location, half := header.Get("Location"), len(data)/2
	if err := u.patch(ctx, location, 0, data[:half]); err != nil {
		return err
	}
	if header, _, err = u.send(ctx, http.StatusOK, http.MethodHead, location, nil, "Tus-Resumable", "1.0.0"); err != nil {
		return err
	}
	if got := header.Get("Upload-Offset"); got != strconv.Itoa(half) {
		return fmt.Errorf("the offset is %q", got)
	}
	if err := u.patch(ctx, location, half, data[half:]); err != nil {
		return err
	}
	return u.seal(ctx, path.Base(location), data)
}

func (u *tenant) patch(ctx context.Context, location string, offset int, chunk []byte) error {
	_, _, err := u.send(ctx, http.StatusNoContent, http.MethodPatch, location, chunk,
		"Tus-Resumable", "1.0.0", "Upload-Offset", strconv.Itoa(offset), "Content-Type", "application/offset+octet-stream")
	return err
}

// check reports the failures, and reads everything that was sealed again.
func (u *tenant) check(t *testing.T) {
	t.Helper()
	for i, err := range u.failures {
		if i == 10 {
			break
		}
		t.Error(err)
	}
	if len(u.failures) > 0 {
		t.Fatalf("%d rounds failed", len(u.failures))
	}
	for id, data := range u.sealed {
		if err := u.has(t.Context(), id, data); err != nil {
			t.Errorf("a sealed item: %v", err)
		}
	}
	t.Logf("%d requests without a failure, rounds %v, %d sealed items are all there", u.requests, u.rounds, len(u.sealed))
}
