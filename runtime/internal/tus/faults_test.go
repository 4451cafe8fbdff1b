package tus_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
)

// hookedStore is the real store with hooks before and after the commit.
type hookedStore struct {
	media.Store
	before, after func()
}

func (s *hookedStore) CommitResumable(ctx context.Context, item media.Item, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	if s.before != nil {
		s.before()
	}
	removal, err := s.Store.CommitResumable(ctx, item, incompleteParts, notBefore)
	if s.after != nil {
		s.after()
	}
	return removal, err
}

// hookedObjects is the real S3 store with hooks before and after Complete.
type hookedObjects struct {
	media.ObjectStore
	before, after func()
}

func (s *hookedObjects) ResumeMultipart(bucket, key, id string, parts []media.Part) media.Multipart {
	return &hookedParts{Multipart: s.ObjectStore.ResumeMultipart(bucket, key, id, parts), hooks: s}
}

type hookedParts struct {
	media.Multipart
	hooks *hookedObjects
}

func (p *hookedParts) Complete(ctx context.Context, contentType string) error {
	if p.hooks.before != nil {
		p.hooks.before()
	}
	err := p.Multipart.Complete(ctx, contentType)
	if p.hooks.after != nil {
		p.hooks.after()
	}
	return err
}

// promised checks the main guarantee: a response that reports a complete upload implies a
// draft. It reports whether the response did.
func (w *world) promised(t *testing.T, got answer, address string, size int) bool {
	t.Helper()
	if got.status >= 300 || got.header.Get("Upload-Offset") != strconv.Itoa(size) {
		return false
	}
	if n := w.count(t, address); n != 1 {
		t.Errorf("reported complete (%d %v) with %d drafts", got.status, got.header, n)
	}
	if got.header.Get("x-service-media-id") != idOf(address) {
		t.Errorf("reported complete without the id: %v", got.header)
	}
	return true
}

// insist continues an upload as clients do, with pieces of up to maxPiece bytes, at any of
// the replicas, until a response reports that the upload is complete.
func (w *world) insist(t *testing.T, k, address string, file []byte, maxPiece int, replicas ...*replica) answer {
	t.Helper()
	for ctx, until := t.Context(), time.Now().Add(wait.Timeout(t)); time.Now().Before(until); {
		got, err := replicas[rand.IntN(len(replicas))].try(ctx, http.MethodHead, address, key(k))
		if err != nil || got.status == http.StatusLocked {
			continue
		}
		if w.promised(t, got, address, len(file)) {
			return got
		}
		at0, err := strconv.Atoi(got.header.Get("Upload-Offset"))
		if got.status != http.StatusOK || err != nil {
			t.Fatalf("HEAD: %d %v", got.status, got.header)
		}
		to := min(len(file), at0+1+rand.IntN(maxPiece))
		got, err = replicas[rand.IntN(len(replicas))].try(ctx, http.MethodPatch, address, key(k), at(at0), chunk(file[at0:to]))
		switch {
		case err != nil:
		case w.promised(t, got, address, len(file)):
			return got
		case got.status != http.StatusNoContent && got.status != http.StatusConflict && got.status != http.StatusLocked && got.status < 500:
			t.Fatalf("PATCH: %d %s", got.status, got.body)
		}
	}
	t.Fatal("the upload does not complete")
	return answer{}
}

// sizes are of a file that is stored with one request, and of one that is stored in parts.
var sizes = map[string]int{"a small file": 3000, "a file in parts": 20<<20 + 5}

// impatient is for replicas that are to answer 423 while an upload cannot be locked.
func impatient(o *options) { o.tus.LockTimeout = 10 * time.Second }

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
			hooked := &hookedStore{Store: w.Store}
			when(hooked, sync.OnceFunc(server.Kill))
			here, there := w.replica(t, impatient, func(o *options) { o.store = hooked }), w.replica(t, impatient)
			file := noise(size)
			address := here.created(t, one.Key, size)
			here.sent(t, one.Key, address, 0, file[:size-10])
			got := here.do(t, http.MethodPatch, address, key(one.Key), at(size-10), chunk(file[size-10:]))
			committed := hooked.after != nil
			switch {
			case !committed && got.status < 500, got.status < 300 && !committed:
				t.Errorf("%s, %s: %d %v %s", name, kind, got.status, got.header, got.body)
			case !committed && (got.header.Get("Upload-Offset") != "" || got.header.Get("x-service-media-id") != ""):
				t.Errorf("%s, %s: the error response has the headers %v", name, kind, got.header)
			}
			var asked sync.WaitGroup
			for _, rt := range []*replica{here, there} { // at once, because each waits for the lock
				asked.Go(func() {
					got, err := rt.try(t.Context(), http.MethodHead, address, key(one.Key))
					if err != nil || got.status != http.StatusLocked || got.header.Get("Retry-After") == "" || got.header.Get("Upload-Offset") != "" {
						t.Errorf("%s, %s: without a database HEAD returns %d %v, %v", name, kind, got.status, got.header, err)
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
				return finished.status == http.StatusOK
			})
			if !w.promised(t, finished, address, size) {
				t.Fatalf("%s, %s: HEAD returns %v", name, kind, finished.header)
			}
			there.holds(t, finished.document(t), file)
			w.purged(t, one)
		}
	}
}

// reconnect waits until the test's own connections to the database work again.
func (w *world) reconnect(t *testing.T) {
	t.Helper()
	for range 8 { // as many as the pool has
		wait.Until(t, "the database is back", func() bool { return w.Store.Ping(t.Context()) == nil })
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
		here, there := w.replica(t, impatient, func(o *options) { o.objects = hooked }), w.replica(t, impatient)
		file := noise(size)
		address := here.created(t, one.Key, size)
		here.sent(t, one.Key, address, 0, file[:size-10])
		got := here.do(t, http.MethodPatch, address, key(one.Key), at(size-10), chunk(file[size-10:]))
		if done := w.promised(t, got, address, size); !done {
			if got.status != http.StatusServiceUnavailable || w.count(t, address) != 0 {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
			if got := there.do(t, http.MethodHead, address, key(one.Key)); got.status != http.StatusLocked || got.header.Get("Upload-Offset") != "" {
				t.Errorf("%s: without S3 HEAD returns %d %v", name, got.status, got.header)
			}
		} else if hooked.before != nil {
			t.Errorf("%s: it is complete", name)
		}
		server.Start()
		there.holds(t, w.insist(t, one.Key, address, file, size, there).document(t), file)
		w.purged(t, one)
	}
}

// binary starts the shipped runtime.
func (w *world) binary(t *testing.T, access testenv.S3Access) (*replica, *testenv.Process) {
	t.Helper()
	runtime := testenv.Runtime(t, testenv.RuntimeConfig{BaseURL: baseURL, Secret: strings.Repeat("ab", 32),
		Stores: testenv.StoreSettings(w.Database.DatabaseURL, access), Env: []string{"SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0"}})
	transport := runtimetest.Dialer(runtime.Addr)
	t.Cleanup(transport.CloseIdleConnections)
	return &replica{client: &http.Client{Transport: transport, Timeout: 2 * wait.Timeout(t)}}, runtime.Process
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
		if got := <-answered; got.status != 0 {
			t.Errorf("%s: a killed runtime answered %d %v", kind, got.status, got.header)
		}
		must(t, hold.Rollback(t.Context()))
		must(t, conn.Close(t.Context()))
		// HEAD finishes it, at the other runtime.
		finished := there.do(t, http.MethodHead, address, key(one.Key))
		if !w.promised(t, finished, address, size) {
			t.Fatalf("%s: HEAD returns %d %v", kind, finished.status, finished.header)
		}
		there.holds(t, finished.document(t), file)
	}
	w.purged(t, one)
}

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
	if n := there.offset(t, one.Key, address); n < media.PartSize || n > 20<<20 {
		t.Errorf("%d bytes are reported", n)
	}
	there.holds(t, w.insist(t, one.Key, address, file, len(file), there).document(t), file)
	w.purged(t, one)
}

// stalling is a body that stalls after file, and then fails.
type stalling struct {
	file    []byte
	stalled chan struct{}
	resume  chan struct{}
	once    sync.Once
}

func (s *stalling) Read(p []byte) (int, error) {
	if len(s.file) == 0 {
		s.once.Do(func() { close(s.stalled) })
		<-s.resume
		return 0, errors.New("the client disconnected")
	}
	n := copy(p, s.file)
	s.file = s.file[n:]
	return n, nil
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
			if got := <-first; got.status != 0 && got.status != http.StatusLocked {
				t.Errorf("the old request was answered %d %v", got.status, got.header)
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
		if n := w.QueryInt(t, `SELECT count(*) FROM item WHERE file_name IS NOT NULL AND id = $1`, uuid.MustParse(idOf(address))); n != 1 {
			t.Errorf("%d drafts", n)
		}
	})
	w.purged(t, one)
}

// A PATCH with a wrong offset or checksum changes nothing, at any state of the upload.
func TestPatch_WrongOffsetOrChecksumChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	file := noise(18 << 20)
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:17<<20])
	for offset, body := range map[int][]byte{0: file, 17<<20 - 1: file[17<<20-1:], 17<<20 + 1: file[17<<20+1:], len(file): nil} {
		rt.do(t, http.MethodPatch, address, key(one.Key), at(offset), chunk(body)).rejected(t, http.StatusConflict)
	}
	// The checksum of the whole file is not that of the last piece.
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), chunk(file[17<<20:]), header("Upload-Checksum", sumOf("sha256", file))).rejected(t, 460)
	// The length can't be changed once it is declared.
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), chunk(nil), length(17<<20)).rejected(t, http.StatusBadRequest)
	if n := rt.offset(t, one.Key, address); n != 17<<20 || w.count(t, address) != 0 {
		t.Errorf("after the rejected requests the offset is %d", n)
	}
	rt.complete(t, one.Key, address, file)
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
		if got := second.do(t, http.MethodDelete, address, key(one.Key)); got.status != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", got.status, got.body)
		}
		close(body.resume)
		if got := <-patched; got.status != 0 && got.status != http.StatusLocked && got.status != http.StatusNotFound {
			t.Errorf("PATCH: %d %s", got.status, got.body)
		}
		if got := here.do(t, http.MethodHead, address, key(one.Key)); got.status != http.StatusNotFound {
			t.Errorf("HEAD: %d", got.status)
		}
	}
	if n := w.QueryInt(t, `SELECT bytes FROM account_usage`); n != 0 {
		t.Errorf("%d bytes are reserved", n)
	}
	w.purged(t, one)
}

// The purge removes an upload while its client, after a long pause, sends the rest.
func TestPatch_NotFoundWhenPurgedWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	file := noise(20 << 20)
	hooked := &hookedStore{Store: w.Store}
	rt := w.replica(t, func(o *options) { o.store = hooked })
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:18<<20])
	hooked.before = sync.OnceFunc(func() { w.purged(t, one) })
	rt.do(t, http.MethodPatch, address, key(one.Key), at(18<<20), chunk(file[18<<20:])).rejected(t, http.StatusNotFound)
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		if got := rt.do(t, method, address, key(one.Key), at(len(file)), chunk(nil)); got.status != http.StatusNotFound {
			t.Errorf("%s of an expired upload: %d", method, got.status)
		}
	}
	if n := w.count(t, address); n != 0 {
		t.Errorf("%d drafts of an expired upload", n)
	}
	w.purged(t, one)
}

func TestImages_GetTheirDerivatives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) { o.images = true })
	picture := image.NewNRGBA(image.Rect(0, 0, 1600, 1200))
	for n := range picture.Pix {
		picture.Pix[n] = uint8(rand.IntN(256))
	}
	picture.SetNRGBA(0, 0, color.NRGBA{A: 255})
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, picture, &jpeg.Options{Quality: 99}))
	for _, pieces := range []int{1, 3} {
		address := rt.created(t, one.Key, file.Len(), metadata("filename", "a.jpg"))
		var got answer
		for n := range pieces {
			from, to := n*file.Len()/pieces, (n+1)*file.Len()/pieces
			got = rt.sent(t, one.Key, address, from, file.Bytes()[from:to])
		}
		item := got.document(t)
		rt.holds(t, item, file.Bytes())
		if item.MimeType != "image/jpeg" || item.Thumbnail == "" || item.Width != 1600 || item.Height != 1200 || len(item.Placeholder) < 5 {
			t.Fatalf("the draft is %+v", item)
		}
		small := rt.do(t, http.MethodGet, item.Thumbnail)
		if small.status != http.StatusOK || small.header.Get("Content-Type") != "image/webp" || len(small.body) < 1000 || string(small.body[8:12]) != "WEBP" {
			t.Errorf("the thumbnail: %d %v, %d bytes", small.status, small.header, len(small.body))
		}
	}
	w.purged(t, one)
}

// tusd interrupts a request by a deadline in the past. It once stayed on the connection, and
// the next request on that connection failed.
func TestConnection_ServesTheNextRequestAfterAFailedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	finishing, finish := make(chan struct{}), make(chan struct{})
	hooked := &hookedStore{Store: w.Store, before: sync.OnceFunc(func() { close(finishing); <-finish })}
	here, there := w.replica(t, func(o *options) { o.store = hooked }), w.replica(t)
	here.client.Transport.(*http.Transport).MaxConnsPerHost = 1
	file := noise(1000)

	// The whole body was received, and another request waits for the lock while it is finished.
	address := here.created(t, one.Key, len(file))
	first := make(chan answer, 1)
	go func() {
		got, err := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), chunk(file))
		if err != nil {
			t.Error(err)
		}
		first <- got
	}()
	<-finishing
	asked := make(chan answer, 1)
	go func() {
		got, err := there.try(t.Context(), http.MethodHead, address, key(one.Key))
		if err != nil {
			t.Error(err)
		}
		asked <- got
	}()
	wait.Until(t, "the other replica waits", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_notify%' AND datname = current_database() AND pid <> pg_backend_pid()`) > 0
	})
	close(finish)
	if got := <-first; got.status != http.StatusNoContent || !w.promised(t, got, address, len(file)) {
		t.Errorf("a request whose body was complete: %d %v %s", got.status, got.header, got.body)
	}
	if got := <-asked; !w.promised(t, got, address, len(file)) {
		t.Errorf("HEAD: %d %v", got.status, got.header)
	}
	reused := false
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	for range 3 {
		if got, err := here.try(traced, http.MethodHead, address, key(one.Key)); err != nil || got.status != http.StatusOK || !reused {
			t.Errorf("the next request: %d %v, reused: %t", got.status, err, reused)
		}
	}

	// Half of the body was received when another request takes the upload over.
	address = here.created(t, one.Key, len(file))
	body := &stalling{file: file[:500], stalled: make(chan struct{}), resume: make(chan struct{})}
	go func() {
		got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(io.MultiReader(body)))
		first <- got
	}()
	<-body.stalled
	var got answer
	wait.Until(t, "the request is interrupted", func() bool { // it may not have started at the first HEAD
		if n := there.offset(t, one.Key, address); n > 500 {
			t.Errorf("%d bytes", n)
		}
		select {
		case got = <-first:
			return true
		default:
			return false
		}
	})
	close(body.resume)
	if got.status != http.StatusLocked || got.header.Get("Retry-After") == "" {
		t.Errorf("the interrupted request: %d %v", got.status, got.header)
	}
	for range 3 {
		if got, err := here.try(t.Context(), http.MethodHead, address, key(one.Key)); err != nil || got.status != http.StatusOK {
			t.Errorf("the next request: %d %v", got.status, err)
		}
	}
	here.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// A client that stalls for too long gets an error response that says so, and can resume the
// upload.
func TestStalledPatch_CanBeResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) { o.server.StallTimeout = 5 * time.Second }) // far more than the first bytes need
	file := noise(1000)
	address := rt.created(t, one.Key, len(file))
	body := &stalling{file: file[:500], stalled: make(chan struct{}), resume: make(chan struct{})}
	defer close(body.resume)
	got := rt.do(t, http.MethodPatch, address, key(one.Key), at(0), stream(body))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Upload-Offset") != "" {
		t.Errorf("PATCH: %d %v %s", got.status, got.header, got.body)
	}
	if n := rt.offset(t, one.Key, address); n != 500 {
		t.Errorf("%d bytes were received", n)
	}
	rt.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// A replica that drains interrupts its uploads, and their clients continue at another one.
func TestDrain_ReleasesRunningUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(20 << 20)
	address := here.created(t, one.Key, len(file))
	body := &stalling{file: file[:18<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
	patched := make(chan answer, 1)
	go func() {
		got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(body))
		patched <- got
	}()
	<-body.stalled
	here.api.Drain()
	if got := <-patched; got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" { // a tus client does not retry after 4xx
		t.Errorf("PATCH: %d %v %s", got.status, got.header, got.body)
	}
	close(body.resume)
	if n := there.offset(t, one.Key, address); n == 0 || n > 18<<20 {
		t.Errorf("%d bytes were received", n)
	}
	there.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// A stalled connection once held the memory that others waited for. It is interrupted, and
// what was received is kept.
func TestPatch_BelowTheMinimumRateKeepsWhatArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, quick := w.tenant(t, "slow"), w.tenant(t, "quick")
	rt := w.replica(t, func(o *options) {
		o.media.UploadMemory, o.media.UploadMinTransferRate = 17<<20, 64<<10
	})
	file := noise(20 << 20)
	address := rt.created(t, slow.Key, len(file))
	body := &stalling{file: file[:15<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
	patched := make(chan answer, 1)
	go func() {
		got, _ := rt.try(t.Context(), http.MethodPatch, address, key(slow.Key), at(0), stream(body))
		patched <- got
	}()
	<-body.stalled
	other := noise(2 << 20)
	rt.complete(t, quick.Key, rt.created(t, quick.Key, len(other)), other)
	if got := <-patched; got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" { // a tus client does not retry after 4xx
		t.Errorf("PATCH: %d %v %s", got.status, got.header, got.body)
	}
	close(body.resume)
	if n := rt.offset(t, slow.Key, address); n < 5<<20 || n > 15<<20 {
		t.Errorf("%d bytes were received", n)
	}
	rt.complete(t, slow.Key, address, file)
	w.purged(t, slow)
}
