package go_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/clients/go/api"
	"mediastack.dev/hack/test/clients/clienttest"
)

func (f *fixture) seal(t *testing.T, options mediastack.UploadOptions) string {
	t.Helper()
	options.Seal = true
	item, err := f.client.Upload(t.Context(), strings.NewReader("a text of "+options.FileName), options)
	must(t, err)
	return item.MediaID
}

func testFind(t *testing.T, f *fixture) {
	began := time.Now().Add(-time.Minute)
	first := f.seal(t, mediastack.UploadOptions{FileName: "Alpha.txt", Group: "find", Metadata: map[string]string{"album": "one"}})
	second := f.seal(t, mediastack.UploadOptions{FileName: "beta longer.txt", Group: "find", Metadata: map[string]string{"album": "two", "kind": "ä&b"}, ResumableFrom: -1})
	draft, err := f.client.Upload(t.Context(), strings.NewReader("a draft"), mediastack.UploadOptions{Group: "find"})
	must(t, err)
	for name, test := range map[string]struct {
		options mediastack.ListOptions
		want    []string
	}{
		"type":    {mediastack.ListOptions{Filter: mediastack.Filter{Type: "text/*"}}, []string{second, first}},
		"no type": {mediastack.ListOptions{Filter: mediastack.Filter{Type: "image/*"}}, nil},
		"name":    {mediastack.ListOptions{Filter: mediastack.Filter{Name: "ALPH"}}, []string{first}},
		"from":    {mediastack.ListOptions{Filter: mediastack.Filter{From: began}}, []string{second, first}},
		"to":      {mediastack.ListOptions{Filter: mediastack.Filter{To: began}}, nil},
		"meta":    {mediastack.ListOptions{Filter: mediastack.Filter{Meta: map[string]string{"album": "two", "kind": "ä&b"}}}, []string{second}},
		"sort":    {mediastack.ListOptions{Filter: mediastack.Filter{Type: "text/*"}, Sort: api.SortSize}, []string{first, second}},
		"drafts":  {mediastack.ListOptions{State: api.Draft}, []string{draft.MediaID}},
	} {
		test.options.Group = "find"
		page, err := f.client.List(t.Context(), test.options)
		must(t, err)
		var got []string
		for _, item := range page.Items {
			got = append(got, item.MediaID)
		}
		if !slices.Equal(got, test.want) || page.Total != nil {
			t.Errorf("%s: %v, want %v; the total is %v", name, got, test.want, page.Total)
		}
	}
	if n, err := f.client.Count(t.Context(), mediastack.Filter{Group: "find", Meta: map[string]string{"album": "one"}}); err != nil || n.Count != 1 {
		t.Errorf("the count is %+v, %v", n, err)
	}
	var ids, listed []string
	for i := range 5 {
		ids = append([]string{f.seal(t, mediastack.UploadOptions{FileName: fmt.Sprint(i), Group: "moved"})}, ids...)
	}
	for item, err := range f.client.Items(t.Context(), mediastack.ListOptions{Filter: mediastack.Filter{Group: "moved"}, Limit: 2}) {
		must(t, err)
		if listed = append(listed, item.MediaID); len(listed) == 2 {
			_, err = f.client.Delete(t.Context(), ids[0])
			must(t, err)
			f.seal(t, mediastack.UploadOptions{Group: "moved"})
		}
	}
	if !slices.Equal(listed, ids) {
		t.Errorf("while items are deleted and uploaded: %v, want %v", listed, ids)
	}
}

func testUpdate(t *testing.T, f *fixture) {
	id := f.seal(t, mediastack.UploadOptions{Caption: "a caption", Metadata: map[string]string{"album": "one", "kind": "two"}})
	item, etag, err := f.client.GetVersioned(t.Context(), id)
	if err != nil || item.Caption != "a caption" {
		t.Fatalf("the item is %+v, %v", item, err)
	}
	item, err = f.client.UpdateIfMatch(t.Context(), id, etag, mediastack.Patch{"caption": nil, "fileName": "new.txt", "metadata": map[string]any{"album": nil}})
	must(t, err)
	if item.Caption != "" || item.OriginalFileName != "new.txt" || len(item.Metadata) != 1 {
		t.Errorf("the item is %+v", item)
	}
	_, err = f.client.UpdateIfMatch(t.Context(), id, etag, mediastack.Patch{"caption": "x"})
	checkError(t, err, api.ErrorCodePreconditionFailed, http.StatusPreconditionFailed)
	if item, err = f.client.Update(t.Context(), id, mediastack.Patch{"metadata": nil}); err != nil || len(item.Metadata) != 0 {
		t.Errorf("the item is %+v, %v", item, err)
	}
}

func testUndo(t *testing.T, f *fixture) {
	ids := []string{f.seal(t, mediastack.UploadOptions{}), f.seal(t, mediastack.UploadOptions{})}
	batch := func(request mediastack.BatchRequest, want ...int) {
		t.Helper()
		results, err := f.client.Batch(t.Context(), request)
		must(t, err)
		var got []int
		for _, result := range results {
			got = append(got, result.Status)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", request.Operation, got, want)
		}
	}
	batch(mediastack.BatchRequest{Operation: api.Update, Ids: ids, Patch: &mediastack.Patch{"caption": nil, "group": "batch"}}, 200, 200)
	batch(mediastack.BatchRequest{Operation: api.Delete, Ids: append(ids, unknownID)}, 200, 200, 404)
	deleted, err := f.client.ListDeleted(t.Context(), 1, 100)
	must(t, err)
	if deleted.Total < len(ids) {
		t.Errorf("%d items are deleted", deleted.Total)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(deleted.Items, func(item mediastack.DeletedItem) bool { return item.MediaID == id && item.Group == "batch" }) {
			t.Errorf("%s is not among the deleted items", id)
		}
	}
	if item, err := f.client.Restore(t.Context(), ids[0]); err != nil || item.MediaID != ids[0] {
		t.Errorf("the restored item is %+v, %v", item, err)
	}
	batch(mediastack.BatchRequest{Operation: api.Restore, Ids: ids}, 200, 200)
}

// A delete, alone and in a batch, says until when it can be undone.
func testPermanent(t *testing.T, f *fixture) {
	kept, gone := f.seal(t, mediastack.UploadOptions{}), f.seal(t, mediastack.UploadOptions{})
	draft, err := f.client.Upload(t.Context(), strings.NewReader("a draft"), mediastack.UploadOptions{})
	must(t, err)
	deleted, err := f.client.Delete(t.Context(), kept)
	must(t, err)
	if !deleted.Deleted || deleted.MediaID != kept || deleted.ExpiresAt == nil || deleted.ExpiresAt.Before(time.Now()) {
		t.Errorf("the answer is %+v", deleted)
	}
	must(t, f.client.DeletePermanently(t.Context(), gone))
	_, err = f.client.Restore(t.Context(), gone)
	checkError(t, err, api.ErrorCodeNotFound, http.StatusNotFound)
	_, err = f.client.Restore(t.Context(), kept)
	must(t, err)
	results, err := f.client.Batch(t.Context(), mediastack.BatchRequest{Operation: api.Delete, Ids: []string{kept, draft.MediaID}})
	must(t, err)
	if results[0].ExpiresAt == nil || results[1].Status != http.StatusOK || results[1].ExpiresAt != nil {
		t.Errorf("the results are %+v", results)
	}
	must(t, f.client.DeletePermanently(t.Context(), kept)) // what was deleted already
	_, err = f.client.Restore(t.Context(), kept)
	checkError(t, err, api.ErrorCodeNotFound, http.StatusNotFound)
}

// More items than a page has are restored while they are listed, and none is missed.
func testRestoreAll(t *testing.T, f *fixture) {
	const count = 103
	var ids []string
	for i := range count {
		ids = append(ids, f.seal(t, mediastack.UploadOptions{FileName: fmt.Sprint(i), Group: "restored"}))
	}
	for at := range slices.Chunk(ids, 100) {
		_, err := f.client.Batch(t.Context(), mediastack.BatchRequest{Operation: api.Delete, Ids: at})
		must(t, err)
	}
	restored := 0
	for item, err := range f.client.DeletedItems(t.Context()) {
		must(t, err)
		if item.Group != "restored" {
			continue
		}
		_, err := f.client.Restore(t.Context(), item.MediaID)
		must(t, err)
		restored++
	}
	if n, err := f.client.Count(t.Context(), mediastack.Filter{Group: "restored"}); err != nil || restored != count || n.Count != count {
		t.Errorf("%d are restored, and %+v are listed (%v)", restored, n, err)
	}
}

func testFields(t *testing.T, f *fixture) {
	id := f.seal(t, mediastack.UploadOptions{FileName: "a.txt", Group: "fields", Caption: "a caption"})
	page, err := f.client.List(t.Context(), mediastack.ListOptions{Filter: mediastack.Filter{Group: "fields"}, Fields: []string{"mediaId", "size"}})
	must(t, err)
	item, err := f.client.Get(t.Context(), id, "mediaId", "caption")
	must(t, err)
	if listed := page.Items[0]; listed.MediaID != id || listed.Size == 0 || listed.OriginalFileName != "" || item.Caption != "a caption" || item.Size != 0 {
		t.Errorf("the items are %+v and %+v", listed, item)
	}
	totals, err := f.client.Totals(t.Context(), mediastack.Filter{Group: "fields"})
	must(t, err)
	if totals.Storage != page.Items[0].Size {
		t.Errorf("the totals are %+v", totals)
	}
}

func testFromURL(t *testing.T, f *fixture) {
	waiting, err := mediastack.New(f.BaseURL, mediastack.APIKey(f.APIKey), mediastack.Options{})
	must(t, err)
	var jobID string
	var received int64
	item, err := waiting.UploadFromURL(t.Context(), f.RemoteURL+"/photo.txt", mediastack.URLUploadOptions{Group: "remote", Caption: "fetched", Access: mediastack.Public, Metadata: map[string]string{"album": "one"}, Seal: true,
		OnStart: func(id string) { jobID = id }, OnProgress: func(bytes, _ int64) { received = bytes }})
	must(t, err)
	if item.OriginalFileName != "photo.txt" || item.Temp || item.Group != "remote" || item.Caption != "fetched" || item.Access != mediastack.Public || item.Metadata["album"] != "one" || received != int64(len(clienttest.RemoteFile)) {
		t.Errorf("the item is %+v, after %d bytes", item, received)
	}
	f.stored(t, item, []byte(clienttest.RemoteFile))
	state, err := waiting.UploadFromURLState(t.Context(), jobID)
	must(t, err)
	again, err := waiting.WaitForUploadFromURL(t.Context(), jobID, nil)
	must(t, err)
	if state.State != api.URLUploadStateDone || again.MediaID != item.MediaID {
		t.Errorf("the state is %+v, and the item %+v", state, again)
	}
	// The end of a wait does not end the upload.
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = waiting.UploadFromURL(ctx, f.RemoteURL+"/photo.txt", mediastack.URLUploadOptions{FileName: "named.txt", OnStart: func(id string) {
		jobID = id
		cancel(stopped)
	}})
	if !errors.Is(err, stopped) {
		t.Errorf("the error is %v", err)
	}
	if item, err = waiting.WaitForUploadFromURL(t.Context(), jobID, nil); err != nil || item.OriginalFileName != "named.txt" || !item.Temp {
		t.Errorf("the item is %+v, %v", item, err)
	}
	var failed *mediastack.UploadFromURLError
	if _, err = waiting.UploadFromURL(t.Context(), f.RemoteURL+"/missing", mediastack.URLUploadOptions{}); !errors.As(err, &failed) || failed.Code != "status_404" || failed.Detail == "" || failed.JobID == "" {
		t.Errorf("the error is %v", err)
	}
	_, err = waiting.UploadFromURL(t.Context(), "http://localhost/", mediastack.URLUploadOptions{})
	checkError(t, err, api.ErrorCodeInvalidRequest, http.StatusBadRequest)
	// It is not begun twice.
	f.Front.Reset()
	f.Front.Plan(clienttest.Fault{Method: http.MethodPost, Path: "/media/create/url", Count: 1, LoseAnswer: true})
	_, err = f.client.UploadFromURL(t.Context(), f.RemoteURL+"/photo.txt", mediastack.URLUploadOptions{})
	if requests, _ := f.Front.Seen(); err == nil || !slices.Equal(requests, []string{"POST /media/create/url"}) {
		t.Errorf("%v after %v", err, requests)
	}
	without, err := mediastack.New(f.LimitedURL, mediastack.APIKey(f.APIKey), mediastack.Options{})
	must(t, err)
	_, err = without.UploadFromURL(t.Context(), f.RemoteURL+"/photo.txt", mediastack.URLUploadOptions{})
	checkError(t, err, api.ErrorCodeForbidden, http.StatusForbidden)
}
