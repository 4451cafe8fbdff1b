//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/exchange"
)

// A pod runs this program as a client when the first of these is set; the others are the keys of the
// Secret that the operator has made.
const (
	clientEnv = "CLIENT_KEY"
	urlEnv    = "CLIENT_URL"
	mcpEnv    = "CLIENT_MCP"
)

// client is a tenant's program.
type client struct {
	url, mcp, key string
	http          *http.Client
}

// runInPod is what a pod of a tenant does.
func runInPod(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := client{url: os.Getenv(urlEnv), mcp: os.Getenv(mcpEnv), key: os.Getenv(clientEnv), http: http.DefaultClient}
	return c.story(ctx)
}

// item is a media document.
type item struct {
	MediaID   string `json:"mediaId"`
	File      string `json:"file"`
	Thumbnail string `json:"thumbnail"`
	Temp      bool   `json:"temp"`
}

// story uses everything that the service has for a tenant's key.
func (c client) story(ctx context.Context) error {
	for name, step := range map[string]func(context.Context) error{
		"upload to download": c.uploadAndDownload, "pictures": c.picture, "TUS": c.resume, "MCP": c.callTools,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// send sends a request and returns the answer's body, which must have a status.
func (c client) send(ctx context.Context, status int, method, url string, body []byte, header ...string) ([]byte, http.Header, error) {
	if c.key != "" && strings.HasPrefix(url, c.url) && !strings.Contains(url, "/media/file/") {
		header = append(header, "x-service-apikey", c.key)
	}
	got, err := exchange.Expect(ctx, c.http, status, method, url, bytes.NewReader(body), header...)
	return got.Body, got.Header, err
}

func (c client) document(ctx context.Context, status int, method, path string, body []byte, header ...string) (found item, err error) {
	content, _, err := c.send(ctx, status, method, c.url+path, body, header...)
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(content, &found)
}

// upload makes a draft.
func (c client) upload(ctx context.Context, name string, data []byte) (item, error) {
	form, contentType := exchange.Form(name, data)
	return c.document(ctx, http.StatusCreated, http.MethodPost, "/media/create", form, "Content-Type", contentType)
}

func (c client) seal(ctx context.Context, id string) (item, error) {
	return c.document(ctx, http.StatusOK, http.MethodPost, "/media/seal/"+id, nil)
}

// has checks that an item's file has the content.
func (c client) has(ctx context.Context, found item, content []byte) error {
	got, _, err := c.send(ctx, http.StatusOK, http.MethodGet, found.File, nil)
	if err == nil && !bytes.Equal(got, content) {
		err = fmt.Errorf("%s has %d bytes that differ from the %d uploaded ones", found.File, len(got), len(content))
	}
	return err
}

func (c client) uploadAndDownload(ctx context.Context) error {
	data := randomBytes(3_000_017)
	draft, err := c.upload(ctx, "Füße 写真.bin", data)
	if err != nil {
		return err
	}
	if err := c.has(ctx, draft, data); err != nil {
		return err
	}
	sealed, err := c.seal(ctx, draft.MediaID)
	if err != nil {
		return err
	}
	if sealed.Temp {
		return errors.New("a sealed item is still a draft")
	}
	content, _, err := c.send(ctx, http.StatusOK, http.MethodGet, c.url+"/media/get", nil)
	if err != nil {
		return err
	}
	var list []item
	if err := json.Unmarshal(content, &list); err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(i item) bool { return i.MediaID == draft.MediaID }) {
		return errors.New("the sealed item is not listed")
	}
	return c.has(ctx, sealed, data)
}

// picture uploads a picture, whose thumbnail the image worker makes inside of the container.
func (c client) picture(ctx context.Context) error {
	painted := image.NewRGBA(image.Rect(0, 0, 800, 600))
	for x := range 800 {
		for y := range 600 {
			painted.Set(x, y, color.RGBA{R: uint8(x / 4), G: uint8(y / 4), B: 90, A: 255})
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, painted, nil); err != nil {
		return err
	}
	draft, err := c.upload(ctx, "picture.jpg", file.Bytes())
	if err != nil {
		return err
	}
	if draft.Thumbnail == "" {
		return errors.New("a JPEG has no thumbnail")
	}
	thumbnail, header, err := c.send(ctx, http.StatusOK, http.MethodGet, draft.Thumbnail, nil)
	if err != nil {
		return err
	}
	if kind := header.Get("Content-Type"); kind != "image/webp" || !bytes.HasPrefix(thumbnail, []byte("RIFF")) {
		return fmt.Errorf("the thumbnail is %s, %d bytes", kind, len(thumbnail))
	}
	return nil
}

// resume uploads in two parts, and asks in between how much has arrived.
func (c client) resume(ctx context.Context) error {
	data := randomBytes(2_000_003)
	version := []string{"Tus-Resumable", "1.0.0"}
	_, made, err := c.send(ctx, http.StatusCreated, http.MethodPost, c.url+"/media/create/resumable", nil, append(version, "Upload-Length", strconv.Itoa(len(data)))...)
	if err != nil {
		return err
	}
	location := made.Get("Location")
	const half = 1_000_000
	patch := func(offset int, part []byte) error {
		_, _, err := c.send(ctx, http.StatusNoContent, http.MethodPatch, location, part, append(version, "Upload-Offset", strconv.Itoa(offset), "Content-Type", "application/offset+octet-stream")...)
		return err
	}
	if err := patch(0, data[:half]); err != nil {
		return err
	}
	_, header, err := c.send(ctx, http.StatusOK, http.MethodHead, location, nil, version...)
	if err != nil {
		return err
	}
	if got := header.Get("Upload-Offset"); got != strconv.Itoa(half) {
		return fmt.Errorf("after %d bytes the offset is %q", half, got)
	}
	if err := patch(half, data[half:]); err != nil {
		return err
	}
	draft, err := c.document(ctx, http.StatusOK, http.MethodGet, "/media/get/"+path.Base(location), nil)
	if err != nil {
		return err
	}
	return c.has(ctx, draft, data)
}

// keyed adds the key to requests.
type keyed struct {
	key  string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("x-service-apikey", k.key)
	return k.next.RoundTrip(request)
}

// callTools initializes an MCP session, lists the tools and calls one.
func (c client) callTools(ctx context.Context) error {
	next := c.http.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	transport := &mcp.StreamableClientTransport{Endpoint: c.mcp, HTTPClient: &http.Client{Transport: keyed{c.key, next}}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "update_media_settings" }) {
		return fmt.Errorf("the %d tools lack update_media_settings", len(tools.Tools))
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_media_settings"})
	if err == nil && result.IsError {
		err = fmt.Errorf("get_media_settings failed: %v", result.Content)
	}
	return err
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	seed := [32]byte{}
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}
