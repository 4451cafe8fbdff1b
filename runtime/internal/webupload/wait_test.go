package webupload_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

// A call that waits is answered with the file that comes meanwhile, at another replica.
func TestGetUpload_WaitsForTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	replicas := w.replicas(t)
	key := runtimetest.Key(one.Key)
	of := replicas[0].request(t, key, object{})
	answered := make(chan state, 1)
	go func() {
		found, _ := call[state](t, replicas[0], "get_upload", object{"uploadId": of.UploadID}, key)
		answered <- found
	}()
	wait.Until(t, "the call has looked once", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%name: FindUploadRequest%' AND pid <> pg_backend_pid()`) > 0
	})
	replicas[1].do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the form")
	if got := wait.Receive(t, "the answer of the call", answered); got.State != "uploaded" || got.Size != 3 || !got.Temp {
		t.Errorf("the state is %+v", got)
	}
}

// A draft that is deleted is told of, and so is what is on its way.
func TestGetUpload_TellsWhatHasBecomeOfTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of := rt.request(t, key, object{})
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the form")
	made := rt.stateOf(t, key, of)
	if _, err := call[object](t, rt, "delete_media", object{"mediaId": made.MediaID}, key); err != nil {
		t.Fatal(err)
	}
	if got := rt.stateOf(t, key, of); got.State != "deleted" || got.MediaID != "" {
		t.Errorf("after the delete the state is %+v", got)
	}
	rt.shows(t, of, http.StatusOK, "is deleted since", "takes no other file")
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusForbidden, "another file after the delete")
}

// A resumable upload that its browser has lost can be discarded, and the address takes another file.
func TestPage_BeginsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of := rt.request(t, key, object{})
	location := rt.create(t, of, "1000")
	rt.part(t, location, "0", "abc").MustBe(t, http.StatusNoContent, "a part")
	rt.shows(t, of, http.StatusOK, "A file is on its way", "3 bytes of 1000 bytes have arrived", "start again")
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusForbidden, "another file meanwhile")
	got := rt.do(t, http.MethodPost, of.Page+"/again")
	if got.Status != http.StatusOK || !strings.Contains(string(got.Body), "Hand over a file") {
		t.Fatalf("again: %d %s", got.Status, got.Body)
	}
	rt.do(t, http.MethodHead, location, tus("")).MustBe(t, http.StatusNotFound, "the upload before")
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "another file afterwards")
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
	// What was handed over stays.
	rt.do(t, http.MethodPost, of.Page+"/again").MustBe(t, http.StatusOK, "again after the end")
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
}

// Neither the database nor the log has the token, and the purge ends the rows.
func TestToken_IsInNoLogAndNoRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of := rt.request(t, key, object{})
	token := of.Page[strings.LastIndex(of.Page, "/")+1:]
	rt.shows(t, of, http.StatusOK)
	for _, line := range []string{"POST ", "POST /file", "POST /again", "PATCH /resumable/x", "OPTIONS /resumable", "PUT ", "GET /nothing"} {
		method, suffix, _ := strings.Cut(line, " ")
		rt.do(t, method, of.Page+suffix, runtimetest.Header("Origin", "https://other.example"), runtimetest.Header("Access-Control-Request-Method", "PATCH"))
	}
	if logs := rt.Logs.String(); strings.Contains(logs, token[8:]) || !strings.Contains(logs, "/upload/{token}") {
		t.Errorf("the log is %s", logs)
	}
	w.Counts(t, 1, "rows", `SELECT count(*) FROM upload_request`)
	w.Counts(t, 0, "rows with the token", `SELECT count(*) FROM upload_request r WHERE r::text LIKE '%' || $1 || '%'`, token[8:])
}

// A call that waits tells nothing to a connection that has ended meanwhile.
func TestGetUpload_TellsNothingAfterTheRevocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	login := bearer(w.session(t, one))
	of := rt.request(t, login, object{})
	answered := make(chan error, 1)
	go func() {
		_, err := call[state](t, rt, "get_upload", object{"uploadId": of.UploadID}, login)
		answered <- err
	}()
	wait.Until(t, "the call has looked once", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%name: FindUploadRequest%' AND pid <> pg_backend_pid()`) > 0
	})
	// One statement ends both, so the call never sees the end of the wait before that of the connection.
	w.Exec(t, `WITH revoked AS (UPDATE oauth_grant SET revoked_at = now()) UPDATE upload_request SET expires_at = now() - interval '1 second'`)
	if err := wait.Receive(t, "the answer of the call", answered); err == nil || !strings.Contains(err.Error(), "the connection has ended") {
		t.Errorf("the answer is %v", err)
	}
	if _, err := call[state](t, rt, "get_upload", object{"uploadId": of.UploadID}, login); err == nil {
		t.Error("a revoked login reads the state")
	}
}

// An event names the connection that has requested the file.
func TestPage_TellsTheJournalWhoHasRequested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.Journal = time.Hour })
	rt := w.replica(t)
	of := rt.request(t, bearer(w.session(t, one)), object{"seal": true})
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the form")
	w.Counts(t, 2, "events of the upload and the seal", `SELECT count(*) FROM journal, oauth_grant WHERE type IN ('media.uploaded', 'media.sealed')
		AND actor::jsonb ->> 'kind' = 'capability' AND actor::jsonb ->> 'id' = oauth_grant.id::text`)
}
