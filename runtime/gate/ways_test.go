package gate_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
)

// way is a way to upload a file and to seal it. It returns what the service has answered last, and the item, if it has told its id.
type way func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (answer string, id uuid.UUID)

// ways are all ways to seal by an API; that of the files page is in package webfiles. The test below finds those that are missing.
var ways = map[string]way{
	"REST": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		id := w.draft(t, of, data)
		answer := w.seal(t, of, id)
		return fmt.Sprintf("%d %s", answer.Status, answer.Body), id
	},
	"a batch": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		id := w.draft(t, of, data)
		answer := w.do(t, http.MethodPost, api.BatchRoute, runtimetest.Key(of.Key), body(fmt.Sprintf(`{"operation":"seal","ids":[%q]}`, id)))
		return string(answer.Body), id
	},
	"a tool": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		id := w.draft(t, of, data)
		return w.call(t, of, "seal_media", map[string]any{"mediaId": id}), id
	},
	"a signature": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		answer := w.do(t, http.MethodPost, "/media/create", runtimetest.Signature(w.signature(t, of)), form(data))
		return string(answer.Body), itemOf(t, answer).MediaId
	},
	"a signature by TUS": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		return "", w.resumable(t, data, runtimetest.Signature(w.signature(t, of)))
	},
	"a requested file": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		page, _ := w.request(t, of)
		answer := w.do(t, http.MethodPost, page+"/file", form(data))
		return string(answer.Body), itemOf(t, answer).MediaId
	},
	"a requested file by its page": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		page, request := w.request(t, of)
		w.do(t, http.MethodPost, page, form(data)).MustBe(t, http.StatusOK, "hand over a file")
		found := regexp.MustCompile(`"mediaId":"([^"]+)"`).FindStringSubmatch(w.call(t, of, "get_upload", map[string]any{"uploadId": request}))
		if found == nil { // it is in quarantine already
			return "", uuid.Nil
		}
		return "", uuid.MustParse(found[1])
	},
	"TUS and REST": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		id := w.resumable(t, data, runtimetest.Key(of.Key))
		answer := w.seal(t, of, id)
		return fmt.Sprintf("%d %s", answer.Status, answer.Body), id
	},
	"a URL": func(w *world, t *testing.T, of runtimetest.Tenant, data []byte) (string, uuid.UUID) {
		return string(w.fetched(t, of, data).Body), uuid.Nil
	},
}

// What seals is known here: a new way needs a test above.
func TestSeal_AllWaysAreKnown(t *testing.T) {
	t.Parallel()
	want := []string{
		"approval/worker.go",            // what an owner has allowed: approval.TestSeal_ThatIsAllowedGoesThroughTheGate
		"fetch/attempt.go",              // a URL
		"internal/api/document.go",      // tells in a document when an item was sealed
		"internal/mcp/items.go",         // a tool
		"internal/mcp/slim.go",          // tells in a short list when an item was sealed
		"internal/rest/batch.go",        // a batch
		"internal/rest/items.go",        // REST
		"internal/webfiles/change.go",   // the files page: TestFiles_AreCheckedBeforeTheyAreSealed
		"internal/webfiles/selected.go", // the files page: TestFiles_SelectedOnesAreCheckedBeforeTheyAreKept
		"internal/webfiles/upload.go",   // the files page
		"media/service.go",              // what they all call
		"postgres/capability.go",        // a signature
		"postgres/gate.go",              // a result
		"postgres/gate_seal.go",         // media.Store of an account with a gate
		"postgres/guard_publish.go",     // media.Store of a connection, as above
		"postgres/item.go",              // media.Store
		"postgres/queries/item.sql",     // the statement
		"postgres/queries/undo.sql",     // an item that was sealed before is restored
		"postgres/undo.go",              // as above
		"upload/capability.go",          // says of an item that its signature seals it
	}
	seals := regexp.MustCompile(`(?i)\.Seal\(ctx|\.Seal\(r\.Context|Media\.Seal\(|SET sealed_at = |\bsealed_at = \S|\.SealedAt(, item\.Version)? = `)
	compareFiles(t, seals, want, "seals something")
}

// What opens objects is known here: what gives out their bytes asks whether the file is checked, as the line says.
func TestRead_AllWaysAreKnown(t *testing.T) {
	t.Parallel()
	compareFiles(t, regexp.MustCompile(`(?i)objects\.Open\(`), []string{
		"consistency/bucket.go",          // reads manifests of the check
		"gate/worker.go",                 // for the scanner
		"internal/delivery/content.go",   // after Store.ItemForDelivery
		"internal/delivery/redirect.go",  // as above
		"internal/delivery/small.go",     // as above
		"internal/webfiles/archive.go",   // after Item.Readable: TestSelected_FilesThatAreNotCheckedAreInNoArchive
		"internal/webfiles/thumbnail.go", // of deleted items, which were sealed
		"media/capturefile.go",           // for the image worker
		"media/factsbackfill.go",         // as above
		"rendition/maker.go",             // as above; what it makes is read by the ways of this list
		"rendition/view.go",              // after Item.Readable: TestViewMedia_OfAFileThatIsNotChecked
		"upload/derivatives.go",          // for the image worker
		"upload/derive.go",               // as above
		"upload/resumable_progress.go",   // joins parts of an upload
	}, "opens objects")
}

// compareFiles compares the files whose text matches with those that are wanted.
func compareFiles(t *testing.T, pattern *regexp.Regexp, want []string, does string) {
	t.Helper()
	var found []string
	must(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"runtimetest", "sqlgen", "migrations"}, entry.Name()) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".sql"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && pattern.Match(text) {
			found = append(found, strings.TrimPrefix(path, "../"))
		}
		return err
	}))
	for _, path := range found {
		if !slices.Contains(want, path) {
			t.Errorf("%s %s", path, does)
		}
	}
	for _, path := range want {
		if !slices.Contains(found, path) {
			t.Errorf("%s is listed, and does not match: %s", path, does)
		}
	}
}

// A file with something in it is sealed by none of the ways, whenever the result comes, and a clean one by each.
func TestSeal_EveryWayGoesThroughTheGate(t *testing.T) {
	t.Parallel()
	for name, upload := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := withClamd(t)
			one := w.gated(t, "one")
			w.run(t)
			text, clean := upload(w, t, one, []byte("clean"))
			if clean == uuid.Nil {
				clean = uuid.MustParse(regexp.MustCompile(`"mediaId":"([^"]+)"`).FindStringSubmatch(text)[1])
			}
			if item := w.sealed(t, one, clean); item.State != "" || item.SealedAt == nil {
				t.Errorf("the item is %+v", item)
			}
			_, id := upload(w, t, one, testenv.EICAR())
			wait.UntilNone(t, func() string {
				if w.QueryInt(t, `SELECT count(*) FROM quarantine`) == 1 {
					return ""
				}
				return "nothing is in quarantine"
			})
			w.noTasks(t)
			w.Counts(t, 1, "items", `SELECT count(*) FROM stored_item`)
			w.Counts(t, 1, "sealed items", `SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL AND id = $1`, clean)
			w.Counts(t, 1, "seals", `SELECT count(*) FROM journal WHERE type = 'media.sealed'`)
			w.Counts(t, 1, "rejections", `SELECT count(*) FROM journal WHERE type = 'media.rejected' AND app_id = $1`, one.App.ID)
			w.Counts(t, 5, "bytes of the cap", `SELECT bytes FROM account_usage`)
			if id != uuid.Nil {
				again := w.seal(t, one, id)
				again.Is(t, http.StatusUnprocessableEntity, "seal the rejected file")
				if !strings.Contains(string(again.Body), "Eicar-Test-Signature") || !strings.Contains(string(again.Body), "file_rejected") {
					t.Errorf("%s", again.Body)
				}
				w.do(t, http.MethodGet, "/media/get/"+id.String(), runtimetest.Key(one.Key)).Is(t, http.StatusNotFound, "read the rejected file")
			}
		})
	}
}

// Before the result each way says that the file is checked, and the seal happens once it is clean, by the actor who wanted it.
func TestSeal_IsRecordedUntilTheResult(t *testing.T) {
	t.Parallel()
	for name, upload := range ways {
		if name == "a URL" { // its task runs beside that of the check
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, scanner := withScripted(t)
			one := w.gated(t, "one")
			answer, id := upload(w, t, one, []byte("clean"))
			if answer != "" && (!strings.Contains(answer, `"state":"checking"`) && !strings.Contains(answer, `\"state\":\"checking\"`)) {
				t.Errorf("the answer is %s", answer)
			}
			status := map[string]string{"REST": "202 ", "TUS and REST": "202 ", "a batch": `"status":202`, "a tool": "It is sealed by itself once it is clean"}[name]
			if !strings.Contains(answer, status) {
				t.Errorf("the answer is %s, without %s", answer, status)
			}
			item := itemOf(t, w.do(t, http.MethodGet, "/media/get/"+id.String(), runtimetest.Key(one.Key)))
			if !item.Temp || item.State != "checking" || item.SealedAt != nil {
				t.Errorf("the item is %+v", item)
			}
			repeated := w.seal(t, one, id)
			repeated.Is(t, http.StatusAccepted, "seal again")
			w.Counts(t, 0, "sealed items", `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL`)
			w.Counts(t, 2, "events", `SELECT count(*) FROM journal WHERE item_id IS NOT NULL`)
			w.do(t, http.MethodGet, item.File).Is(t, http.StatusNotFound, "download a file that was not checked")
			w.run(t)
			sealed := w.sealed(t, one, id)
			if sealed.State != "" || scanner.count() != 1 {
				t.Errorf("after %d scans the item is %+v", scanner.count(), sealed)
			}
			w.seal(t, one, id).Is(t, http.StatusOK, "seal a sealed item")
			w.do(t, http.MethodGet, sealed.File).Is(t, http.StatusOK, "download the file")
			w.Counts(t, 1, "seals by the one who wanted it", `SELECT count(*) FROM journal WHERE type = 'media.sealed' AND actor = (SELECT actor FROM journal WHERE type = 'media.updated')`)
			w.Counts(t, 3, "versions", `SELECT version FROM item`)
			w.Counts(t, 3, "versions told", `SELECT max(sequence) FROM journal`)
			w.Counts(t, 1, "items in the totals", `SELECT sum(public_items + private_items) FROM app_total`)
		})
	}
}

// A seal after the result is as one without a gate.
func TestSeal_AfterTheResultIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	w, _ := withScripted(t)
	one := w.gated(t, "one")
	w.run(t)
	id := w.draft(t, one, []byte("clean"))
	w.noTasks(t)
	w.seal(t, one, id).Is(t, http.StatusOK, "seal")
	w.Counts(t, 2, "versions", `SELECT version FROM item`)
}
