package approval_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
)

// A seal that was sent before its upload was committed did not find the item when it looked whether publishing waits, found it when it sealed, and
// published it: the id of an upload is known before.
func TestSeal_SentBeforeItsUploadIsCommittedWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	version := runtimetest.Header("Tus-Resumable", "1.0.0")
	for range 20 {
		created, err := w.tools.Send(t.Context(), http.MethodPost, "/media/create/resumable", by, version, runtimetest.Header("Upload-Length", "5"),
			runtimetest.Header("Upload-Metadata", "filename "+encoded("a.txt")+",access "+encoded("public")))
		must(t, err)
		created.MustBe(t, http.StatusCreated, "begin an upload")
		location := strings.TrimPrefix(created.Header.Get("Location"), runtimetest.BaseURL)
		id := location[strings.LastIndex(location, "/")+1:]
		var seals sync.WaitGroup
		for range 4 {
			seals.Go(func() {
				for status := http.StatusNotFound; status == http.StatusNotFound; {
					answer, err := w.tools.Send(t.Context(), http.MethodPost, "/media/seal/"+id, by)
					if err != nil {
						t.Errorf("seal: %v", err)
						return
					}
					if status = answer.Status; status != http.StatusNotFound {
						answer.Is(t, http.StatusForbidden, "seal")
					}
				}
			})
		}
		complete, err := w.tools.Send(t.Context(), http.MethodPatch, location, by, version, runtimetest.Text("hello"), runtimetest.Header("Upload-Offset", "0"),
			runtimetest.Header("Content-Type", "application/offset+octet-stream"))
		must(t, err)
		complete.MustBe(t, http.StatusNoContent, "complete the upload")
		seals.Wait()
		w.Counts(t, 1, "drafts", `SELECT count(*) FROM item WHERE id = $1 AND sealed_at IS NULL`, id)
	}
	w.Counts(t, 0, "seals", `SELECT count(*) FROM journal WHERE type = 'media.sealed'`)
}
