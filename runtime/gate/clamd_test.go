package gate_test

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/runtimetest"
)

// uploaders is how many clients upload while clamd is killed.
const uploaders = 4

// killings returns how often clamd is killed.
func killings() int {
	if os.Getenv("MEDIASTACK_TEST_FULL") != "" {
		return 100
	}
	return 20
}

// While clamd is killed again and again, no file is sealed that it has not checked, and none is lost: each clean one is sealed in the end, and
// each other one is in quarantine.
func TestClamd_KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	w, clamd := withClamd(t)
	one := w.gated(t, "one")
	w.run(t)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for range killings() {
			clamd.Kill()
			clamd.Start()
			w.exec(t, `UPDATE work SET due_at = now() WHERE kind = 'scan' AND claim IS NULL AND attempts = 0`) // others keep their pauses, as in production
			w.Tasks.Wake(gate.ScanWork)
		}
	}()
	var mu sync.Mutex
	var clean, infected []uuid.UUID
	var uploading sync.WaitGroup
	for client := range uploaders {
		uploading.Go(func() {
			for n := 0; ; n++ {
				data, found := fmt.Appendf(nil, "clean %d %d", client, n), &clean
				if n%2 == 1 {
					data, found = append(testenv.EICAR(), fmt.Sprintf(" %d %d", client, n)...), &infected
				}
				id := w.draft(t, one, data)
				if answer := w.seal(t, one, id); answer.Status != http.StatusOK && answer.Status != http.StatusAccepted && (n%2 == 0 || answer.Status != http.StatusUnprocessableEntity) {
					t.Errorf("seal: %d %s", answer.Status, answer.Body)
				}
				mu.Lock()
				*found = append(*found, id)
				mu.Unlock()
				select {
				case <-killed:
					if n > 1 {
						return
					}
				default:
				}
			}
		})
	}
	uploading.Wait()
	wait.UntilNone(t, func() string {
		w.due(t)
		if n := w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'scan'`); n > 0 {
			return fmt.Sprintf("%d of %d files are to be checked", n, len(clean)+len(infected))
		}
		return ""
	})
	t.Logf("clamd was killed %d times; %d clean files, %d others", killings(), len(clean), len(infected))
	for _, id := range clean {
		if item := itemOf(t, w.do(t, http.MethodGet, "/media/get/"+id.String(), runtimetest.Key(one.Key))); item.SealedAt == nil {
			t.Errorf("a clean file is not sealed: %+v", item)
		}
	}
	w.Counts(t, int64(len(clean)), "sealed items", `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL AND id = ANY ($1)`, clean)
	w.Counts(t, int64(len(clean)), "items", `SELECT count(*) FROM stored_item`)
	w.Counts(t, int64(len(infected)), "files in quarantine", `SELECT count(*) FROM quarantine WHERE item_id = ANY ($1)`, infected)
	w.Counts(t, int64(len(clean)), "seals", `SELECT count(*) FROM journal WHERE type = 'media.sealed'`)
	w.Counts(t, int64(len(infected)), "rejections", `SELECT count(*) FROM journal WHERE type = 'media.rejected'`)
}
