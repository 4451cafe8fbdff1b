package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// pathOf returns the path of an item's file.
func (i createdItem) path() string { return strings.TrimPrefix(i.File, "http://media.test") }

// A file that S3 has lost was once answered as any failure of the service.
func TestLostFile_IsAnsweredWithACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	s := prepared(t, testenv.Postgres(t), access)
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	s.serve(t)
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	item := s.upload(t)
	if status, text := s.send(t, http.MethodHead, item.path(), "", ""); status != http.StatusOK { // a small file that was read is in memory
		t.Fatalf("before: %d %s", status, text)
	}
	bucket, key := s.tenant.Account.Bucket, media.ObjectKey(uuid.MustParse(item.ID), media.Original)
	must(t, objects.Remove(t.Context(), bucket, []string{key}))
	status, text := s.send(t, http.MethodGet, item.path(), "", "")
	got := s.request(t, http.MethodGet, item.path())
	if got.status != status || status != http.StatusInternalServerError || !strings.Contains(text, `"code":"file_lost"`) || !strings.Contains(text, "lost this file") || got.header.Get("Cache-Control") != "no-store" || got.header.Get("ETag") != "" {
		t.Errorf("a file that is lost: %d %v %s", got.status, got.header, text)
	}
	log := s.logs.String()
	for _, want := range []string{"inconsistency: the object store has lost an object of an item", item.ID, s.tenant.Account.ID.String(), bucket, key} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %q", want)
		}
	}
	if lost := s.metrics(t)["mediastack_files_lost_total"].GetMetric()[0].GetCounter().GetValue(); lost != 2 {
		t.Errorf("%v files are counted", lost)
	}
	if status, text := s.send(t, http.MethodGet, "/media/get/"+item.ID, "", ""); status != http.StatusOK || !strings.Contains(text, item.ID) {
		t.Errorf("the item: %d %s", status, text)
	}
	if status, _, text := s.toolCall(t, "get_media", `{"mediaId":"`+item.ID+`"}`); status != http.StatusOK || strings.Contains(text, `"isError":true`) || !strings.Contains(text, item.ID) {
		t.Errorf("get_media: %d %s", status, text)
	}
	if status, _, text := s.toolCall(t, "delete_media", `{"mediaId":"`+item.ID+`"}`); status != http.StatusOK || strings.Contains(text, `"isError":true`) {
		t.Errorf("delete_media: %d %s", status, text)
	}
	if got := s.request(t, http.MethodGet, item.path()); got.status != http.StatusNotFound {
		t.Errorf("after the deletion: %d", got.status)
	}
}

// S3 may respond to probes and hang in the read of one object.
func TestFile_UnavailableWhileS3HangsInItsRead(t *testing.T) {
	t.Parallel()
	access := testenv.S3Proxy(t, testenv.S3(t), func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/original") {
			return false
		}
		<-r.Context().Done()
		return true
	})
	s := prepared(t, testenv.Postgres(t), access)
	s.serve(t, "--s3-read-timeout=1s")
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	item := s.upload(t)
	if got := s.request(t, http.MethodGet, item.path()); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("a file: %d %v", got.status, got.header)
	}
	if _, found := s.readiness(t); found.Degraded {
		t.Error("S3 is taken for away, although it responds to probes")
	}
}
