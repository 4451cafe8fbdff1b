package tus_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
)

const uploadsPath = "/media/uploads"

// running returns a page of the running uploads, and the cursor of the next one.
func (rt *replica) running(t *testing.T, query string, credential option) ([]api.RunningUpload, string) {
	t.Helper()
	got := rt.do(t, http.MethodGet, uploadsPath+query, credential)
	var page []api.RunningUpload
	if err := json.Unmarshal(got.Body, &page); got.Status != http.StatusOK || err != nil {
		t.Fatalf("the running uploads: %d %s", got.Status, got.Body)
	}
	return page, got.Header.Get("X-Next-Cursor")
}

// listed returns the ids of all pages.
func (rt *replica) listed(t *testing.T, limit int, credential option) []string {
	t.Helper()
	ids := []string{}
	for query := fmt.Sprintf("?limit=%d", limit); ; {
		page, next := rt.running(t, query, credential)
		for _, one := range page {
			ids = append(ids, one.UploadId.String())
		}
		if next == "" {
			return ids
		}
		query = fmt.Sprintf("?limit=%d&after=%s", limit, next)
	}
}

func (rt *replica) end(t *testing.T, address string, credential option) answer {
	t.Helper()
	return rt.do(t, http.MethodDelete, uploadsPath+"/"+idOf(address), credential)
}

// reserved returns the bytes that an account holds under its cap.
func (w *world) reserved(t *testing.T, of tenant) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT bytes FROM account_usage WHERE account_id = $1`, of.Account.ID)
}

// stored returns the objects and the incomplete uploads of a bucket.
func (w *world) stored(t *testing.T, of tenant) (keys []string) {
	t.Helper()
	must(t, w.Objects.List(t.Context(), of.Account.Bucket, "media/", func(o media.ObjectInfo) error {
		keys = append(keys, o.Key)
		return nil
	}))
	must(t, w.Objects.ListIncomplete(t.Context(), of.Account.Bucket, "", func(u media.IncompleteUpload) error {
		keys = append(keys, u.Key)
		return nil
	}))
	return keys
}

func TestRunningUploads_AreThoseThatAreNeitherCompleteNorExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt, other := w.replica(t), w.replica(t)
	old := rt.created(t, one.Key, 100)
	advance(2*time.Hour, rt, other)
	complete := rt.created(t, one.Key, 3)
	rt.sent(t, one.Key, complete, 0, []byte("abc"))
	ended := rt.created(t, one.Key, 7)
	rt.do(t, http.MethodDelete, ended, key(one.Key))
	rt.do(t, http.MethodPost, "/media/create", key(one.Key), form("text/plain", []byte("a form"))).MustBe(t, http.StatusCreated, "a form")
	half := rt.created(t, one.Key, 10, metadata("filename", "Ferien 🏖.bin", "caption", "c", "group", "g", "access", "public"))
	rt.sent(t, one.Key, half, 0, []byte("hello"))
	unknown := rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1")).Header.Get("Location")
	rt.sent(t, one.Key, unknown, 0, []byte("abc"))

	for _, at := range []*replica{rt, other} {
		page, next := at.running(t, "", key(one.Key))
		if len(page) != 3 || next != "" || page[0].UploadId.String() != idOf(unknown) || page[1].UploadId.String() != idOf(half) || page[2].UploadId.String() != idOf(old) {
			t.Fatalf("the running uploads are %+v, then %q", page, next)
		}
		if got := page[0]; got.Size != nil || got.Offset != 3 || got.OriginalFileName != "file" {
			t.Errorf("without a length: %+v", got)
		}
		got := page[1]
		expires := at.do(t, http.MethodHead, half, key(one.Key)).Header.Get("Upload-Expires")
		if *got.Size != 10 || got.Offset != 5 || got.OriginalFileName != "Ferien 🏖.bin" || got.Caption != "c" || got.Group != "g" || got.Access != api.Public || got.UploadUrl != half ||
			got.ExpiresAt.UTC().Format(http.TimeFormat) != expires || got.CreatedAt.IsZero() {
			t.Errorf("half of a file: %+v, HEAD says %s", got, expires)
		}
	}
	// From the second of its expiry on, each method answers that there is no such upload.
	advance(22*time.Hour, rt, other)
	wait.Until(t, "the oldest one expires", func() bool {
		advance(time.Second, rt)
		return rt.do(t, http.MethodHead, old, key(one.Key)).Status == http.StatusNotFound
	})
	if ids := rt.listed(t, 10, key(one.Key)); !slices.Equal(ids, []string{idOf(unknown), idOf(half)}) {
		t.Errorf("after the expiry of one: %v", ids)
	}
	rt.end(t, old, key(one.Key)).rejectedByREST(t, http.StatusNotFound)
	if detail := rt.end(t, complete, key(one.Key)).rejectedByREST(t, http.StatusConflict); !strings.Contains(detail, "complete") {
		t.Errorf("the end of a complete upload: %s", detail)
	}
	for _, bad := range []string{"?limit=0", "?limit=101", "?limit=x", "?after=x", "?page=1", "?after=" + strings.Repeat("a", 70)} {
		rt.do(t, http.MethodGet, uploadsPath+bad, key(one.Key)).Is(t, http.StatusBadRequest, "%s", bad)
	}
	w.purged(t, one)
}

// rejectedByREST checks the status and the document of an error of REST, and returns its detail.
func (a answer) rejectedByREST(t *testing.T, status int) string {
	t.Helper()
	var body api.Error
	if err := json.Unmarshal(a.Body, &body); err != nil || a.Status != status || body.Detail == "" {
		t.Fatalf("got %d %s, want %d", a.Status, a.Body, status)
	}
	return body.Detail
}

func TestRunningUploads_ArePagedWhileOthersRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	var want []string
	for range 7 {
		want = append([]string{idOf(here.created(t, one.Key, 1<<20))}, want...)
	}
	busy := here.created(t, one.Key, 4<<20)
	body, patched := here.patching(t, one.Key, busy, 0)
	_, err := body.Write(noise(1 << 20))
	must(t, err)
	var lists sync.WaitGroup
	for _, rt := range []*replica{here, there} {
		lists.Go(func() {
			for _, limit := range []int{1, 2, 3, 100} {
				ids := slices.DeleteFunc(rt.listed(t, limit, key(one.Key)), func(id string) bool { return !slices.Contains(want, id) })
				if !slices.Equal(ids, want) {
					t.Errorf("by %d: %v, want %v", limit, ids, want)
				}
			}
		})
		lists.Go(func() {
			for range 5 {
				address := rt.created(t, one.Key, 10)
				rt.sent(t, one.Key, address, 0, []byte("hello"))
				if got := rt.end(t, address, key(one.Key)); got.Status != http.StatusNoContent || len(got.Body) != 0 {
					t.Errorf("the end: %d %s", got.Status, got.Body)
				}
			}
		})
	}
	lists.Wait()
	// The lists did not disturb the request that sends.
	must(t, check.ErrorOf(body.Write(noise(3<<20))))
	must(t, body.Close())
	if got := <-patched; got.Status != http.StatusNoContent || got.Header.Get("Upload-Offset") != fmt.Sprint(4<<20) {
		t.Errorf("the PATCH: %d %s", got.Status, got.Body)
	}
	for _, id := range want {
		there.end(t, id, key(one.Key))
	}
	if held := w.reserved(t, one); held != 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
	w.purged(t, one)
}

// receiving starts a PATCH with a body that the test writes, and returns when the handler has found the upload.
func (rt *replica) receiving(t *testing.T, k, address string, offset int) (body *io.PipeWriter, result <-chan answer) {
	t.Helper()
	read, write := io.Pipe()
	held := runtimetest.NewPausedBody(strings.NewReader(""), read)
	got := make(chan answer, 1)
	go func() {
		a, err := rt.try(t.Context(), http.MethodPatch, address, key(k), at(offset), stream(held), func(r *request) { runtimetest.Expect(r.Header) })
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	held.Wait(t)
	held.Release()
	return write, got
}

// An end of an upload that a request is sending, at the same replica and at another one. The request used to be told that
// another one had the lock, and its client would have continued.
func TestEnd_StopsTheRequestThatSendsTheUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	for name, by := range map[string]*replica{"the replica that receives": here, "another replica": there} {
		for kind, first := range map[string]int{"before a part": 1000, "after some parts": 30 << 20} {
			keep := here.created(t, one.Key, 11)
			address := here.created(t, one.Key, 50<<20)
			here.sent(t, one.Key, address, 0, noise(100)) // as the incomplete part
			body, patched := here.receiving(t, one.Key, address, 100)
			must(t, check.ErrorOf(body.Write(noise(first))))
			by.end(t, address, key(one.Key)).Is(t, http.StatusNoContent, "%s, %s: the end", name, kind)
			if held := w.reserved(t, one); held != 11 {
				t.Errorf("%s, %s: %d bytes are held", name, kind, held)
			}
			if keys := w.stored(t, one); len(keys) != 0 {
				t.Errorf("%s, %s: %v are stored", name, kind, keys)
			}
			if got := <-patched; got.Status != http.StatusNotFound || !strings.Contains(string(got.Body), "the upload was ended while its bytes arrived") {
				t.Errorf("%s, %s: the PATCH: %d %s", name, kind, got.Status, got.Body)
			}
			must(t, body.Close())
			for _, rt := range []*replica{here, there} {
				for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
					rt.do(t, method, address, key(one.Key), at(100), chunk(noise(10))).Is(t, http.StatusNotFound, "%s, %s: %s afterwards", name, kind, method)
				}
				rt.end(t, address, key(one.Key)).rejectedByREST(t, http.StatusNotFound)
			}
			by.end(t, keep, key(one.Key)).Is(t, http.StatusNoContent, "the other upload")
		}
	}
	w.purged(t, one)
}

// Of an end and the last byte, one wins: the upload is an item, or it is gone. The room is that of what is there.
func TestEnd_OrTheLastByteWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	var items int64
	for i := range 30 {
		address := here.created(t, one.Key, 1000)
		var both sync.WaitGroup
		var sent, ended answer
		both.Go(func() {
			sent, _ = here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), chunk(noise(1000)))
		})
		both.Go(func() {
			ended, _ = there.try(t.Context(), http.MethodDelete, uploadsPath+"/"+idOf(address), key(one.Key))
		})
		both.Wait()
		n := w.count(t, address)
		items += n
		switch {
		case n == 1 && (sent.Status != http.StatusNoContent || ended.Status != http.StatusConflict), n == 0 && (sent.Status != http.StatusNotFound || ended.Status != http.StatusNoContent):
			t.Errorf("%d: %d items, the PATCH %d %s, the end %d %s", i, n, sent.Status, sent.Body, ended.Status, ended.Body)
		}
	}
	if held := w.reserved(t, one); held != 1000*items {
		t.Errorf("%d bytes are held for %d items", held, items)
	}
	if keys := w.stored(t, one); int64(len(keys)) != items {
		t.Errorf("%d objects of %d items", len(keys), items)
	}
	w.purged(t, one)
}

// A capability lists and ends the uploads that it created, also when it has expired. Another signature does neither.
func TestRunningUploads_OfACapabilityAreItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	rt := w.replica(t)
	mine, others := rt.capability(t, one.Key, `{"maxBytes": 1000, "expiresIn": 60}`), rt.capability(t, one.Key, `{"maxBytes": 1000}`)
	foreign := rt.capability(t, two.Key, `{"maxBytes": 1000}`)
	byKey := rt.created(t, one.Key, 10)
	created := rt.do(t, http.MethodPost, collection, mine, length(10)).Header.Get("Location")
	second := rt.do(t, http.MethodPost, collection, mine, length(10)).Header.Get("Location")
	theirs := rt.do(t, http.MethodPost, collection, others, length(10)).Header.Get("Location")
	advance(2*time.Minute, rt)
	for name, c := range map[string]struct {
		credential option
		want       []string
	}{
		"the capability": {mine, []string{idOf(second), idOf(created)}}, "another one": {others, []string{idOf(theirs)}}, "another tenant's": {foreign, []string{}},
		"the key": {key(one.Key), []string{idOf(theirs), idOf(second), idOf(created), idOf(byKey)}},
	} {
		if ids := rt.listed(t, 1, c.credential); !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", name, ids, c.want)
		}
	}
	missing := rt.end(t, "/"+uuid.NewString(), mine)
	for _, address := range []string{byKey, theirs} {
		if got := rt.end(t, address, mine); got.Status != http.StatusNotFound || string(got.Body) != string(missing.Body) {
			t.Errorf("the end of another upload: %d %s", got.Status, got.Body)
		}
	}
	for _, group := range []string{"", "g"} {
		plain := signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, group))
		rt.do(t, http.MethodGet, uploadsPath, plain).rejectedByREST(t, http.StatusForbidden)
		rt.end(t, byKey, plain).rejectedByREST(t, http.StatusForbidden)
	}
	rt.end(t, created, mine).Is(t, http.StatusNoContent, "the end")
	if held := w.reserved(t, one); held != 30 {
		t.Errorf("%d bytes are held", held)
	}
	w.purged(t, one)
	w.purged(t, two)
}

// A replica is killed while it ends an upload: before the transaction, and after it, while it waits for a request of
// another replica which is suspended. The room is that of what is there, and the purge removes the objects.
func TestEnd_LosesNothingWhenItsReplicaIsKilled(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	one := w.tenant(t, "one")
	here, holder := w.binary(t, access)
	third, _ := w.binary(t, access)
	address := here.created(t, one.Key, 40<<20)
	body := &stalling{file: noise(20 << 20), stalled: make(chan struct{}), resume: make(chan struct{})}
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		_, _ = here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(body))
	}()
	<-body.stalled
	wait.Until(t, "a part is durable", func() bool { return w.QueryInt(t, `SELECT received FROM resumable_upload`) > 0 })
	must(t, holder.Signal(syscall.SIGSTOP))

	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	hold, err := conn.Begin(t.Context())
	must(t, err)
	_, err = hold.Exec(t.Context(), `SELECT FROM account_usage FOR UPDATE`) // no end can be committed
	must(t, err)
	there, process := w.binary(t, access)
	ends := make(chan error, 2)
	end := func(by *replica) {
		go func() {
			_, err := by.try(t.Context(), http.MethodDelete, uploadsPath+"/"+idOf(address), key(one.Key))
			ends <- err
		}()
	}
	end(there)
	wait.Until(t, "the end waits for the usage", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%account_usage%'`) > 0
	})
	process.Kill()
	if err := <-ends; err == nil {
		t.Error("a killed runtime answered")
	}
	must(t, hold.Rollback(t.Context()))
	must(t, conn.Close(t.Context()))
	wait.Until(t, "the transaction of the killed runtime is rolled back", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%account_usage%' AND state <> 'idle' AND pid <> pg_backend_pid()`) == 0
	})
	if left := w.QueryInt(t, `SELECT count(*) FROM upload`); left == 1 { // the statement may have got the row before the connection was found to be closed
		if ids := third.listed(t, 10, key(one.Key)); !slices.Equal(ids, []string{idOf(address)}) || w.reserved(t, one) != 40<<20 {
			t.Errorf("the running uploads are %v, and %d bytes are held", ids, w.reserved(t, one))
		}
		there, process = w.binary(t, access)
		end(there)
		wait.Until(t, "the room is free, though the request that sends does not stop", func() bool { return w.reserved(t, one) == 0 })
		process.Kill()
		if err := <-ends; err == nil {
			t.Error("a killed runtime answered")
		}
	}
	if ids := third.listed(t, 10, key(one.Key)); len(ids) != 0 || w.reserved(t, one) != 0 {
		t.Errorf("the running uploads are %v, and %d bytes are held", ids, w.reserved(t, one))
	}
	third.end(t, address, key(one.Key)).rejectedByREST(t, http.StatusNotFound)
	w.Counts(t, 1, "removals are queued", `SELECT count(*) FROM object_removal WHERE abort_multipart`)
	must(t, holder.Signal(syscall.SIGCONT))
	close(body.resume)
	<-broken
	w.purged(t, one)
}

// A list of 10,000 running uploads is complete, and its pages do not get slower.
func TestRunningUploads_OfWhichThereAreMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	rt := w.replica(t)
	const many = 10_000
	for _, of := range []tenant{one, two} {
		w.seedRunning(t, of, many)
	}
	ids := rt.listed(t, 100, key(one.Key))
	if !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) || len(slices.Compact(slices.Clone(ids))) != many {
		t.Errorf("%d uploads are listed", len(ids))
	}
	for _, id := range ids[:3] {
		rt.end(t, "/"+id, key(one.Key)).Is(t, http.StatusNoContent, "the end")
	}
	if page, _ := rt.running(t, "?limit=1", key(one.Key)); len(page) != 1 || page[0].UploadId.String() != ids[3] {
		t.Errorf("the newest is %+v", page)
	}
	if held := w.reserved(t, one); held != many-3 {
		t.Errorf("%d bytes are held", held)
	}
}

// seedRunning makes running uploads of one byte.
func (w *world) seedRunning(t *testing.T, of tenant, n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range []string{
		`INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends) SELECT gen_random_uuid(), $1::uuid, $2::uuid, 1, now() + interval '1 day' FROM generate_series(1, $3::int)`,
		`INSERT INTO resumable_upload (item_id, account_id, app_id, length, file_name, declared_type, access, caption, group_label, expires_at)
			SELECT item_id, account_id, app_id, 1, 'a', '', 'private', '', '', lease_ends FROM upload WHERE account_id = $1 AND app_id = $2 AND $3::int > 0`,
		`UPDATE account_usage SET bytes = $3::int WHERE account_id = $1 AND $2::uuid IS NOT NULL`,
	} {
		must(t, check.ErrorOf(conn.Exec(t.Context(), statement, of.Account.ID, of.App.ID, n)))
	}
}
