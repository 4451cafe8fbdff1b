package gate_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// quarantined returns the world of a tenant with a file in quarantine whose seal was wanted, or not.
func quarantined(t *testing.T, seal bool) (w *world, one runtimetest.Tenant, id uuid.UUID) {
	t.Helper()
	w, scanner := withScripted(t)
	scanner.answers(gate.Result{Outcome: gate.Infected, Name: "Test.Name"}, nil)
	one = w.gated(t, "one")
	id = w.draft(t, one, []byte("infected"))
	if seal {
		w.seal(t, one, id).MustBe(t, http.StatusAccepted, "seal")
	}
	w.run(t)
	w.noTasks(t)
	return w, one, id
}

func (w *world) listed(t *testing.T, namespace string) (found []gate.Quarantined) {
	t.Helper()
	must(t, w.Store.Gates.EachQuarantined(t.Context(), namespace, func(one gate.Quarantined) error {
		found = append(found, one)
		return nil
	}))
	return found
}

func TestQuarantine_IsListedReleasedAndDeleted(t *testing.T) {
	t.Parallel()
	w, one, id := quarantined(t, true)
	found := w.listed(t, "")
	if len(found) != 1 || found[0].ItemID != id || found[0].Namespace != "team" || found[0].Name != "one" || found[0].App != account.DefaultApp || found[0].FileName != "file.bin" ||
		found[0].Bytes != 8 || found[0].Finding != "Test.Name" || len(w.listed(t, "team")) != 1 || len(w.listed(t, "other")) != 0 {
		t.Errorf("%+v", found)
	}
	before := w.QueryInt(t, `SELECT count(*) FROM object_removal`)
	sealed, err := w.Store.Gates.Release(t.Context(), id, time.Now())
	if err != nil || !sealed {
		t.Fatalf("%t, %v", sealed, err)
	}
	item := w.sealed(t, one, id)
	if answer := w.do(t, http.MethodGet, item.File); answer.Status != http.StatusOK || string(answer.Body) != "infected" {
		t.Errorf("the released file: %d %s", answer.Status, answer.Body)
	}
	w.Counts(t, 8, "bytes of the cap", `SELECT bytes FROM account_usage`)
	w.Counts(t, before, "removals", `SELECT count(*) FROM object_removal`)
	w.Counts(t, 5, "versions", `SELECT version FROM item`)
	w.Counts(t, 5, "versions told", `SELECT max(sequence) FROM journal`)
	w.Counts(t, 1, "releases by the operator", `SELECT count(*) FROM journal WHERE type = 'media.restored' AND actor LIKE '%operator%'`)
	if _, err := w.Store.Gates.Release(t.Context(), id, time.Now()); !fault.Is(err, fault.NotFound) {
		t.Errorf("released twice: %v", err)
	}
	if err := w.Store.Gates.Delete(t.Context(), id); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted after the release: %v", err)
	}
}

// Without a wanted seal, the release makes the draft again, which may be sealed.
// The quarantine is beside the cap: without a bound of its own a client could fill the object store with it.
func TestQuarantine_IsBounded(t *testing.T) {
	t.Parallel()
	w, one, first := quarantined(t, false)
	for range 3 { // with the first one, four files of 8 bytes
		w.draft(t, one, []byte("infected"))
		w.noTasks(t)
	}
	if found := w.listed(t, ""); len(found) != 4 {
		t.Fatalf("%+v", found)
	}
	w.exec(t, `UPDATE account SET max_storage = 250`) // a tenth of it: three files
	last := w.draft(t, one, []byte("infected"))
	w.noTasks(t)
	found := w.listed(t, "")
	if len(found) != 3 || found[0].ItemID != last {
		t.Errorf("%+v", found)
	}
	if queued := w.QueryInt(t, `SELECT count(*) FROM object_removal WHERE keys[1] LIKE '%' || $1 || '%'`, first.String()); queued != 1 {
		t.Errorf("%d removals of the object of the first file", queued)
	}
	w.draft(t, one, make([]byte, 26)) // larger than that: it displaces no other one
	w.noTasks(t)
	if found := w.listed(t, ""); len(found) != 3 || found[0].ItemID != last {
		t.Errorf("after a file that is too large: %+v", found)
	}
	w.exec(t, `UPDATE account SET max_storage = 70`) // not one file
	w.draft(t, one, []byte("infected"))
	w.noTasks(t)
	if found := w.listed(t, ""); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestQuarantine_ReleasesADraftAsADraft(t *testing.T) {
	t.Parallel()
	w, one, id := quarantined(t, false)
	w.exec(t, `UPDATE quarantine SET item = jsonb_set(item, '{created_at}', '"2020-01-01T00:00:00Z"')`)
	if sealed, err := w.Store.Gates.Release(t.Context(), id, time.Now()); err != nil || sealed {
		t.Fatalf("%t, %v", sealed, err)
	}
	w.Counts(t, 0, "drafts to be purged", `SELECT count(*) FROM item WHERE created_at < now() - interval '1h'`)
	w.seal(t, one, id).Is(t, http.StatusOK, "seal the released draft")
}

// In an app that was removed there is no key by which a released file could be deleted.
func TestQuarantine_ReleasesNothingIntoARemovedApp(t *testing.T) {
	t.Parallel()
	w, _, id := quarantined(t, true)
	w.exec(t, `UPDATE app SET closed_at = now()`)
	if _, err := w.Store.Gates.Release(t.Context(), id, time.Now()); !fault.Is(err, fault.NotFound) {
		t.Errorf("released into an app that was removed: %v", err)
	}
	if len(w.listed(t, "")) != 1 {
		t.Error("the file is not in quarantine anymore")
	}
	w.Counts(t, 0, "items", `SELECT count(*) FROM stored_item`)
	must(t, w.Store.Gates.Delete(t.Context(), id))
}

func TestQuarantine_ReleaseObeysTheCap(t *testing.T) {
	t.Parallel()
	w, one, id := quarantined(t, true)
	w.Change(t, one, func(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = 4, 4 })
	if _, err := w.Store.Gates.Release(t.Context(), id, time.Now()); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("released without room: %v", err)
	}
	if len(w.listed(t, "")) != 1 {
		t.Error("the file is not in quarantine anymore")
	}
	w.Counts(t, 0, "items", `SELECT count(*) FROM stored_item`)
	w.Counts(t, 0, "bytes of the cap", `SELECT bytes FROM account_usage`)
}

// The object stays for as long as the file is in quarantine, and is removed then.
func TestQuarantine_EndsWithItsObject(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, id uuid.UUID) error{
		"deleted": func(w *world, id uuid.UUID) error { return w.Store.Gates.Delete(t.Context(), id) },
		"expired": func(w *world, _ uuid.UUID) error {
			return check.ErrorOf(w.Store.Gates.ExpireQuarantine(t.Context(), time.Now().Add(time.Minute), 10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, id := quarantined(t, true)
			if ended, err := w.Store.Gates.ExpireQuarantine(t.Context(), time.Now().Add(-time.Hour), 10); err != nil || ended != 0 {
				t.Errorf("%d files have ended too early: %v", ended, err)
			}
			w.Counts(t, 0, "removals", `SELECT count(*) FROM object_removal`)
			must(t, end(w, id))
			w.Counts(t, 1, "removals", `SELECT count(*) FROM object_removal WHERE keys[1] LIKE '%' || $1 || '%'`, id.String())
			if len(w.listed(t, "")) != 0 {
				t.Error("the file is still in quarantine")
			}
		})
	}
}

// What looks for objects that no item has leaves those in quarantine alone.
func TestQuarantine_ItsObjectsAreNotOrphans(t *testing.T) {
	t.Parallel()
	w, one, id := quarantined(t, true)
	keys := []string{media.WriterKey(id, media.Original, 7)} // as that of a process that has died since
	w.exec(t, `UPDATE quarantine SET objects = jsonb_set(objects, '{0,key}', to_jsonb($1::text))`, keys[0])
	found, err := w.Store.Consistency.FindReferences(t.Context(), one.Account.ID, one.Account.Bucket, []uuid.UUID{id}, keys)
	if err != nil || !found.Items[keys[0]] {
		t.Errorf("%+v, %v", found, err)
	}
	if queued, err := w.Store.Uploads.QueueUnrecorded(t.Context(), one.Account.ID, one.Account.Bucket, keys); err != nil || queued != 0 {
		t.Errorf("%d objects are removed: %v", queued, err)
	}
	must(t, w.Store.Gates.Delete(t.Context(), id))
	if queued, err := w.Store.Uploads.QueueUnrecorded(t.Context(), one.Account.ID, one.Account.Bucket, keys); err != nil || queued != 1 {
		t.Errorf("after the delete %d objects are removed: %v", queued, err)
	}
}

// The owners get one e-mail each in ten minutes, without the name of the file.
func TestNotice_IsSentToTheOwnersSeldom(t *testing.T) {
	t.Parallel()
	w, one, id := quarantined(t, true)
	notices := func() (emails []gate.NoticeEmail) {
		tasks, err := w.Store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: gate.NoticeWork, Limit: 100, Duration: time.Minute})
		must(t, err)
		for _, task := range tasks {
			var email gate.NoticeEmail
			must(t, json.Unmarshal(task.Payload, &email))
			emails = append(emails, email)
		}
		return emails
	}
	found := notices()
	if len(found) != 2 || found[0].To == found[1].To {
		t.Fatalf("%+v", found)
	}
	for _, email := range found {
		if email.Namespace != "team" || email.Account != "one" || email.ItemID != id || email.Finding != "Test.Name" {
			t.Errorf("%+v", email)
		}
	}
	again := w.draft(t, one, []byte("infected, too"))
	w.noTasks(t)
	w.Counts(t, 2, "files in quarantine", `SELECT count(*) FROM quarantine`)
	if found := notices(); len(found) != 0 {
		t.Errorf("after the rejection of %s: %+v", again, found)
	}
	w.exec(t, `UPDATE gate_notice SET told_at = told_at - interval '11 minutes'`)
	w.draft(t, one, []byte("infected later"))
	w.noTasks(t)
	if found := notices(); len(found) != 2 {
		t.Errorf("after eleven minutes: %+v", found)
	}
}
