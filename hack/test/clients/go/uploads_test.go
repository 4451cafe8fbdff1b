package go_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	mediastack "mediastack.dev/clients/go"
)

// A nil file was a panic.
func TestUpload_OfNoFileSendsNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(server.Close)
	client, err := mediastack.New(server.URL, mediastack.APIKey("msk_x"), mediastack.Options{})
	must(t, err)
	var file *os.File
	var reader *bytes.Reader
	for _, options := range []mediastack.UploadOptions{{}, {ResumableFrom: -1}} {
		for name, upload := range map[string]func() (*mediastack.Item, error){
			"nil":          func() (*mediastack.Item, error) { return client.Upload(t.Context(), nil, options) },
			"a nil file":   func() (*mediastack.Item, error) { return client.Upload(t.Context(), file, options) },
			"a nil reader": func() (*mediastack.Item, error) { return client.Upload(t.Context(), reader, options) },
		} {
			if item, err := upload(); err == nil || item != nil || !strings.Contains(err.Error(), "nil") {
				t.Errorf("%s: %v, %v", name, item, err)
			}
		}
	}
}

func testRunning(t *testing.T, f *fixture) {
	var ids []string
	for range 3 {
		ctx, stop := context.WithCancel(t.Context())
		_, err := f.client.Upload(ctx, bytes.NewReader(make([]byte, 9<<20)), mediastack.UploadOptions{FileName: "running.bin", ChunkSize: 1 << 20,
			OnUploadURL: func(uploadURL string) { ids = append([]string{path.Base(uploadURL)}, ids...); stop() }})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("an upload that is stopped: %v", err)
		}
	}
	page, err := f.client.ListUploads(t.Context(), "", 2)
	must(t, err)
	if len(page.Uploads) != 2 || page.Next != ids[1] || page.Uploads[0].UploadID != ids[0] || page.Uploads[0].OriginalFileName != "running.bin" || *page.Uploads[0].Size != 9<<20 {
		t.Errorf("the first page is %+v", page)
	}
	listed := func() (found []string) {
		for upload, err := range f.client.Uploads(t.Context()) {
			must(t, err)
			found = append(found, upload.UploadID)
		}
		return found
	}
	if found := listed(); len(found) < 3 || !slices.Equal(found[:3], ids) {
		t.Errorf("the uploads are %v, want %v first", found, ids)
	}
	for _, id := range append(ids, ids[0]) {
		must(t, f.client.EndUpload(t.Context(), id))
	}
	if found := listed(); slices.ContainsFunc(found, func(id string) bool { return slices.Contains(ids, id) }) {
		t.Errorf("after their end there are %v", found)
	}
}
