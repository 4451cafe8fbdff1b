package webupload_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
)

// A thousand uploads for one request, by the form, by a program and by TUS, at two replicas: one of them makes a draft.
func TestPage_OfAThousandRacersOneMakesADraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	replicas := w.replicas(t, func(o *runtimetest.ServiceConfig) { o.Upload.MaxUploads, o.Upload.UploadQueue = 64, 4000 })
	of := replicas[0].request(t, runtimetest.Key(one.Key), object{})
	const racers = 1000
	var running sync.WaitGroup
	start := make(chan struct{})
	var mu sync.Mutex
	counts := map[string]int{}
	for i := range racers {
		running.Go(func() {
			<-start
			rt, outcome := replicas[i%2], "other"
			switch i % 3 {
			case 0:
				got, err := rt.Send(t.Context(), http.MethodPost, strings.TrimPrefix(of.Page, baseURL), form("a.txt", "text/plain", []byte("abc")))
				if err != nil {
					t.Error(err)
				}
				if outcome = "form rejected"; strings.Contains(string(got.Body), "The file has arrived") && got.Status == http.StatusOK {
					outcome = "made"
				} else if got.Status != http.StatusForbidden {
					outcome = string(got.Body)
				}
			case 1:
				got, err := rt.Send(t.Context(), http.MethodPost, strings.TrimPrefix(of.UploadURL, baseURL), form("a.txt", "text/plain", []byte("abc")))
				if err != nil {
					t.Error(err)
				}
				outcome = outcomeOf(got)
			case 2:
				got, err := rt.Send(t.Context(), http.MethodPost, strings.TrimPrefix(of.ResumableURL, baseURL), tus("abc", "Upload-Length", "3", "Content-Type", "application/offset+octet-stream"))
				if err != nil {
					t.Error(err)
				}
				outcome = outcomeOf(got)
			}
			mu.Lock()
			defer mu.Unlock()
			counts[outcome]++
		})
	}
	close(start)
	running.Wait()
	if counts["made"] != 1 || counts["made"]+counts["rejected"]+counts["form rejected"] != racers {
		t.Errorf("the racers got %v", counts)
	}
	w.Counts(t, 1, "drafts", `SELECT count(*) FROM item`)
	w.Counts(t, 0, "uploads that run", `SELECT count(*) FROM upload`)
	w.Counts(t, 3, "bytes", `SELECT sum(bytes) FROM account_usage`)
	if got := replicas[1].stateOf(t, runtimetest.Key(one.Key), of); got.State != "uploaded" || got.Size != 3 {
		t.Errorf("the state is %+v", got)
	}
}

func outcomeOf(got answer) string {
	switch got.Status {
	case http.StatusCreated:
		return "made"
	case http.StatusForbidden:
		return "rejected"
	}
	return string(got.Body)
}
