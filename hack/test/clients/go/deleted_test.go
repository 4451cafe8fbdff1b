package go_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	mediastack "mediastack.dev/clients/go"
)

// What is restored late makes others move up to pages that were read already. An iteration once missed them.
func TestDeletedItems_AreAllReadWhileTheyAreRestoredLate(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"at once": 1, "in parts of a page": 70, "in pages": 100, "in more than a page": 150} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var deleted, want []string
			for i := range 321 {
				want = append(want, fmt.Sprint(i))
			}
			deleted = slices.Clone(want)
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				page, _ := strconv.Atoi(r.URL.Query().Get("page"))
				limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
				items := []map[string]string{}
				for _, id := range deleted[min((page-1)*limit, len(deleted)):min(page*limit, len(deleted))] {
					items = append(items, map[string]string{"mediaId": id})
				}
				w.Header().Set("X-Total-Count", strconv.Itoa(len(deleted)))
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(items)
			}))
			t.Cleanup(server.Close)
			client, err := mediastack.New(server.URL, mediastack.APIKey("msk_x"), mediastack.Options{})
			must(t, err)
			var found, late []string
			for item, err := range client.DeletedItems(t.Context()) {
				must(t, err)
				found = append(found, item.MediaID)
				if late = append(late, item.MediaID); len(late) == at {
					deleted = slices.DeleteFunc(deleted, func(id string) bool { return slices.Contains(late, id) })
					late = nil
				}
			}
			if !slices.Equal(found, want) || requests > 20 {
				t.Errorf("%d items are read with %d requests, want %d", len(found), requests, len(want))
			}
		})
	}
}
