package tus_test

import (
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/upload"
)

// A runtime is killed, or suspended, while it holds the lock of the upload.
func TestLock_IsFreedWhenItsHolderIsKilled(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	one := w.tenant(t, "one")
	there, _ := w.binary(t, access)
	here, process := w.binary(t, access)
	file := noise(40 << 20)
	address := here.created(t, one.Key, len(file))
	body := &stalling{file: file[:20<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
	broken := make(chan error, 1)
	go func() {
		_, err := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(body))
		broken <- err
	}()
	<-body.stalled
	wait.Until(t, "a part is durable", func() bool {
		return w.QueryInt(t, `SELECT received FROM resumable_upload`) > 0
	})
	must(t, process.Signal(syscall.SIGKILL))
	close(body.resume)
	if err := <-broken; err == nil {
		t.Error("a killed runtime answered")
	}
	if n := there.offset(t, one.Key, address); n < upload.PartSize || n > 20<<20 {
		t.Errorf("%d bytes are reported", n)
	}
	there.holds(t, w.insist(t, one.Key, address, file, len(file), there).document(t), file)
	w.purged(t, one)
}

// A client that reconnects to another replica takes the upload over from its own stalled
// request, and from another client that sends all the time.
func TestPatch_TwoClientsOnOneUploadLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(30 << 20)
	t.Run("the old request stalls", func(t *testing.T) {
		for _, second := range []*replica{here, there} {
			address := here.created(t, one.Key, len(file))
			body := &stalling{file: file[:20<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
			first := make(chan answer, 1)
			go func() {
				got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(body))
				first <- got
			}()
			<-body.stalled
			if n := second.offset(t, one.Key, address); n > 20<<20 {
				t.Errorf("%d bytes are reported", n)
			}
			close(body.resume)
			if got := <-first; got.Status != 0 && got.Status != http.StatusLocked {
				t.Errorf("the old request was answered %d %v", got.Status, got.Header)
			}
			second.holds(t, second.complete(t, one.Key, address, file), file)
		}
	})
	t.Run("both go on", func(t *testing.T) {
		address := here.created(t, one.Key, len(file))
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() { w.insist(t, one.Key, address, file, 7<<20, here, there) })
		}
		clients.Wait()
		here.holds(t, here.do(t, http.MethodHead, address, key(one.Key)).document(t), file)
		w.Counts(t, 1, "drafts", `SELECT count(*) FROM item WHERE file_name IS NOT NULL AND id = $1`, uuid.MustParse(idOf(address)))
	})
	w.purged(t, one)
}

func TestDelete_EndsARunningPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(20 << 20)
	for _, second := range []*replica{here, there} {
		address := here.created(t, one.Key, len(file))
		body := &stalling{file: file[:18<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
		patched := make(chan answer, 1)
		go func() {
			got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(body))
			patched <- got
		}()
		<-body.stalled
		second.do(t, http.MethodDelete, address, key(one.Key)).Is(t, http.StatusNoContent, "DELETE")
		close(body.resume)
		if got := <-patched; got.Status != 0 && got.Status != http.StatusLocked && got.Status != http.StatusNotFound {
			t.Errorf("PATCH: %d %s", got.Status, got.Body)
		}
		here.do(t, http.MethodHead, address, key(one.Key)).Is(t, http.StatusNotFound, "HEAD")
	}
	w.Counts(t, 0, "bytes are reserved", `SELECT bytes FROM account_usage`)
	w.purged(t, one)
}

// The purge removes an upload while its client, after a long pause, sends the rest.
func TestPatch_NotFoundWhenPurgedWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	file := noise(20 << 20)
	hooked := &hookedStore{Store: w.Store.Uploads}
	rt := w.replica(t, func(o *options) { o.Uploads = hooked })
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:18<<20])
	hooked.before = sync.OnceFunc(func() { w.purged(t, one) })
	rt.do(t, http.MethodPatch, address, key(one.Key), at(18<<20), chunk(file[18<<20:])).rejected(t, http.StatusNotFound)
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		rt.do(t, method, address, key(one.Key), at(len(file)), chunk(nil)).Is(t, http.StatusNotFound, "%s of an expired upload", method)
	}
	if n := w.count(t, address); n != 0 {
		t.Errorf("%d drafts of an expired upload", n)
	}
	w.purged(t, one)
}
