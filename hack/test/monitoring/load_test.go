package monitoring_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv"
)

// user is a client of one account that sends requests of every kind.
type user struct {
	baseURL, key string
	picture      []byte
}

func newUser(t *testing.T, baseURL, key string) *user {
	t.Helper()
	picture, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "login.png"))
	must(t, err)
	return &user{baseURL: baseURL, key: key, picture: picture}
}

// round uploads a picture and a file, seals, lists, reads and deletes items, calls a tool, and sends
// a resumable upload and a request that is rejected.
func (u *user) round(ctx context.Context) error {
	picture, err := u.upload(ctx, "picture.png", u.picture)
	if err != nil {
		return err
	}
	file, err := u.upload(ctx, "notes.txt", []byte("notes "+rand.Text()))
	if err != nil {
		return err
	}
	for _, one := range []request{
		{method: http.MethodPost, path: "/media/seal/" + picture.MediaID, want: http.StatusOK},
		{method: http.MethodGet, path: "/media/get", want: http.StatusOK},
		{method: http.MethodGet, path: "/media/get/" + picture.MediaID, want: http.StatusOK},
		{method: http.MethodGet, path: "/media/get/" + rand.Text(), want: http.StatusNotFound},
		{method: http.MethodDelete, path: "/media/delete/" + file.MediaID, want: http.StatusOK},
	} {
		if _, _, err := u.send(ctx, one); err != nil {
			return err
		}
	}
	if err := u.download(ctx, picture.File, picture.Thumbnail); err != nil {
		return err
	}
	if err := u.resumable(ctx, []byte("resumable "+rand.Text())); err != nil {
		return err
	}
	return u.callTool(ctx, "get_media", map[string]any{"mediaId": picture.MediaID})
}

// presets are made for the pictures of an account: one on demand, and one in advance.
const presets = `{"presets": [{"name": "card", "width": 120, "height": 90, "fit": "cover"}, {"name": "tiny", "width": 60, "eager": true}]}`

// declare declares the presets.
func (u *user) declare(ctx context.Context) error {
	_, _, err := u.send(ctx, request{method: http.MethodPost, path: "/settings/media/create", body: []byte(presets), want: http.StatusOK})
	return err
}

// show has a picture of a new item made, and asks for it again.
func (u *user) show(ctx context.Context) error {
	made, err := u.upload(ctx, "picture.png", u.picture)
	if err != nil {
		return err
	}
	if _, _, err := u.send(ctx, request{method: http.MethodPost, path: "/media/seal/" + made.MediaID, want: http.StatusOK}); err != nil {
		return err
	}
	answer, _, err := u.send(ctx, request{method: http.MethodGet, path: "/media/get/" + made.MediaID + "?fields=mediaId,presets", want: http.StatusOK})
	if err != nil {
		return err
	}
	var document struct {
		Presets map[string]struct{ URL string }
	}
	if err := json.Unmarshal(answer, &document); err != nil {
		return err
	}
	return u.download(ctx, document.Presets["card"].URL, document.Presets["card"].URL)
}

// item is a media document.
type item struct{ MediaID, File, Thumbnail string }

// request is a request and the status that is expected.
type request struct {
	method, path string
	body         []byte
	header       map[string]string
	want         int
}

func (u *user) send(ctx context.Context, one request) ([]byte, http.Header, error) {
	path := one.path
	if path[0] == '/' {
		path = u.baseURL + path
	}
	header := []string{"x-service-apikey", u.key}
	for name, value := range one.header {
		header = append(header, name, value)
	}
	got, err := exchange.Expect(ctx, http.DefaultClient, one.want, one.method, path, bytes.NewReader(one.body), header...)
	return got.Body, got.Header, err
}

func (u *user) upload(ctx context.Context, name string, data []byte) (made item, err error) {
	body, contentType := exchange.Form(name, data, "access", "public")
	answer, _, err := u.send(ctx, request{method: http.MethodPost, path: "/media/create", body: body, header: map[string]string{"Content-Type": contentType}, want: http.StatusCreated})
	if err != nil {
		return made, err
	}
	return made, json.Unmarshal(answer, &made)
}

func (u *user) download(ctx context.Context, urls ...string) error {
	for _, one := range urls {
		if _, _, err := u.send(ctx, request{method: http.MethodGet, path: one, want: http.StatusOK}); err != nil {
			return err
		}
	}
	return nil
}

// resumable uploads a file by TUS.
func (u *user) resumable(ctx context.Context, data []byte) error {
	_, header, err := u.send(ctx, request{method: http.MethodPost, path: "/media/create/resumable", want: http.StatusCreated, header: map[string]string{
		"Tus-Resumable": "1.0.0", "Upload-Length": strconv.Itoa(len(data)), "Upload-Metadata": "filename " + base64.StdEncoding.EncodeToString([]byte("notes.txt")),
	}})
	if err != nil {
		return err
	}
	_, _, err = u.send(ctx, request{method: http.MethodPatch, path: header.Get("Location"), body: data, want: http.StatusNoContent, header: map[string]string{
		"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream",
	}})
	return err
}

func (u *user) callTool(ctx context.Context, name string, arguments map[string]any) error {
	const revision = "2026-07-28"
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": name, "arguments": arguments,
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": revision, "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
	}})
	if err != nil {
		return err
	}
	_, _, err = u.send(ctx, request{method: http.MethodPost, path: "/mcp", body: body, want: http.StatusOK, header: map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": name,
	}})
	return err
}

// loadTimeEnv says how long `make screenshots` wants the load to last, before the dashboard is drawn.
const loadTimeEnv = "MONITORING_LOAD"

// load makes accounts, one of which is deleted again, and sends requests of three accounts
// until the returned function is called.
func (s *stack) load() (stop func()) {
	s.t.Helper()
	keys := []string{s.APIKey, s.tenant("studio", "photos"), s.tenant("shop", "catalog")}
	s.tenant("former", "archive")
	s.kubectl("-n", "former", "delete", "mediaaccount", "archive")
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	for i, key := range keys {
		one := newUser(s.t, s.BaseURL, key)
		must(s.t, one.declare(ctx))
		running.Go(func() {
			// The accounts send at different paces, and each of them in waves.
			ticker := time.NewTicker(time.Duration(i+1) * 300 * time.Millisecond) //nolint:forbidigo // the pace of the load
			defer ticker.Stop()
			for n := 0; ; n++ {
				if wave := 1 + math.Sin(float64(n)/(40*float64(i+1))); n == 0 || wave > 2*mathrand.Float64() {
					err := one.round(ctx)
					if err == nil && n%4 == 0 {
						err = one.show(ctx)
					}
					if err != nil && ctx.Err() == nil {
						s.t.Errorf("the load: %v", err)
						return
					}
				}
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// wait waits until the load has lasted as long as the environment says. A new tenant, a deletion and a
// purge in between give the panels of the operator something to show.
func (s *stack) wait(began time.Time) {
	s.t.Helper()
	text := os.Getenv(loadTimeEnv)
	if text == "" {
		return
	}
	length, err := time.ParseDuration(text)
	must(s.t, err)
	until := func(at time.Duration) { <-time.After(time.Until(began.Add(at))) } //nolint:forbidigo // the load lasts so long
	for n, at := range []time.Duration{length / 4, length / 2, length * 3 / 4} {
		until(at)
		name := fmt.Sprintf("campaign-%d", n+1)
		s.tenant("marketing", name)
		s.purge()
	}
	until(length * 7 / 8)
	s.kubectl("-n", "marketing", "delete", "mediaaccount", "campaign-1")
	until(length)
}
