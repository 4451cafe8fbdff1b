package tus_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

func TestFinish_CompletesOnceTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	w := worldAt(t, testenv.Database(t, server), testenv.S3(t))
	for name, when := range map[string]func(*hookedStore, func()){
		"before the commit": func(s *hookedStore, kill func()) { s.before = kill },
		"after the commit":  func(s *hookedStore, kill func()) { s.after = kill },
	} {
		for kind, size := range sizes {
			one := w.tenant(t, "one"+uuid.NewString())
			hooked := &hookedStore{Store: w.Store.Uploads}
			when(hooked, sync.OnceFunc(server.Kill))
			here, there := w.replica(t, impatient, func(o *options) { o.Uploads = hooked }), w.replica(t, impatient)
			file := noise(size)
			address := here.created(t, one.Key, size)
			here.sent(t, one.Key, address, 0, file[:size-10])
			got := here.do(t, http.MethodPatch, address, key(one.Key), at(size-10), chunk(file[size-10:]))
			committed := hooked.after != nil
			switch {
			case !committed && got.Status < 500, got.Status < 300 && !committed:
				t.Errorf("%s, %s: %d %v %s", name, kind, got.Status, got.Header, got.Body)
			case !committed && (got.Header.Get("Upload-Offset") != "" || got.Header.Get("x-service-media-id") != ""):
				t.Errorf("%s, %s: the error response has the headers %v", name, kind, got.Header)
			}
			var asked sync.WaitGroup
			for _, rt := range []*replica{here, there} { // at once, because each waits for the lock
				asked.Go(func() {
					got, err := rt.try(t.Context(), http.MethodHead, address, key(one.Key))
					if err != nil || got.Status != http.StatusLocked || got.Header.Get("Retry-After") == "" || got.Header.Get("Upload-Offset") != "" {
						t.Errorf("%s, %s: without a database HEAD returns %d %v, %v", name, kind, got.Status, got.Header, err)
					}
				})
			}
			asked.Wait()
			server.Start()
			w.reconnect(t)
			// The first request finishes it; no byte is sent again.
			var finished answer
			wait.Until(t, "HEAD answers", func() bool {
				finished = there.do(t, http.MethodHead, address, key(one.Key))
				return finished.Status == http.StatusOK
			})
			if !w.promised(t, finished, address, size) {
				t.Fatalf("%s, %s: HEAD returns %v", name, kind, finished.Header)
			}
			there.holds(t, finished.document(t), file)
			w.purged(t, one)
		}
	}
}

func TestFinish_CompletesOnceS3IsBack(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	w := worldAt(t, testenv.Postgres(t), server.Server.Access)
	size := sizes["a file in parts"]
	for name, when := range map[string]func(*hookedObjects, func()){
		"before Complete": func(s *hookedObjects, kill func()) { s.before = kill },
		"after Complete":  func(s *hookedObjects, kill func()) { s.after = kill },
	} {
		one := w.tenant(t, "one"+uuid.NewString())
		hooked := &hookedObjects{ObjectStore: w.Objects}
		when(hooked, sync.OnceFunc(server.Kill))
		here, there := w.replica(t, impatient, func(o *options) { o.Objects = hooked }), w.replica(t, impatient)
		file := noise(size)
		address := here.created(t, one.Key, size)
		here.sent(t, one.Key, address, 0, file[:size-10])
		got := here.do(t, http.MethodPatch, address, key(one.Key), at(size-10), chunk(file[size-10:]))
		if done := w.promised(t, got, address, size); !done {
			if got.Status != http.StatusServiceUnavailable || w.count(t, address) != 0 {
				t.Errorf("%s: %d %s", name, got.Status, got.Body)
			}
			if got := there.do(t, http.MethodHead, address, key(one.Key)); got.Status != http.StatusLocked || got.Header.Get("Upload-Offset") != "" {
				t.Errorf("%s: without S3 HEAD returns %d %v", name, got.Status, got.Header)
			}
		} else if hooked.before != nil {
			t.Errorf("%s: it is complete", name)
		}
		server.Start()
		there.holds(t, w.insist(t, one.Key, address, file, size, there).document(t), file)
		w.purged(t, one)
	}
}

// The runtime is killed while it commits, after the last byte was received and is durable.
func TestFinish_CompletesAfterTheRuntimeWasKilledBeforeTheCommit(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	one := w.tenant(t, "one")
	there, _ := w.binary(t, access)
	for kind, size := range sizes {
		here, process := w.binary(t, access)
		file := noise(size)
		address := here.created(t, one.Key, size)
		conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
		must(t, err)
		hold, err := conn.Begin(t.Context())
		must(t, err)
		_, err = hold.Exec(t.Context(), `LOCK TABLE item IN SHARE ROW EXCLUSIVE MODE`) // nothing can be committed
		must(t, err)
		answered := make(chan answer, 1)
		go func() {
			got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), chunk(file))
			answered <- got
		}()
		wait.Until(t, "the runtime commits", func() bool {
			return w.QueryInt(t, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'item'::regclass`) > 0
		})
		if n := w.QueryInt(t, `SELECT received FROM resumable_upload WHERE item_id = $1`, uuid.MustParse(idOf(address))); n != int64(size) {
			t.Errorf("%s: %d of %d bytes are durable", kind, n, size)
		}
		process.Kill()
		if got := <-answered; got.Status != 0 {
			t.Errorf("%s: a killed runtime answered %d %v", kind, got.Status, got.Header)
		}
		must(t, hold.Rollback(t.Context()))
		must(t, conn.Close(t.Context()))
		// HEAD finishes it, at the other runtime.
		finished := there.do(t, http.MethodHead, address, key(one.Key))
		if !w.promised(t, finished, address, size) {
			t.Fatalf("%s: HEAD returns %d %v", kind, finished.Status, finished.Header)
		}
		there.holds(t, finished.document(t), file)
	}
	w.purged(t, one)
}
