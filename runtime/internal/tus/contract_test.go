package tus_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

// proceed permits every request to wait for a lock.
func proceed() error { return nil }

// uploads returns the uploads of one process.
func (w *world) uploads(t *testing.T) *upload.Service {
	t.Helper()
	return mediatest.NewReplica(t, runtimetest.UploadConfig(), upload.Deps{Store: w.Store.Uploads, Objects: w.Objects, Settings: w.Settings, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, w.Store.Items).Uploads
}

// The contract of tusd's store interfaces, sentence by sentence.
func TestStore_KeepsTheContractOfTusd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	uploads := w.uploads(t)
	store := tus.StoreFor(uploads)
	fields := media.Fields{FileName: "a.bin", Caption: "c"}
	ctx := tus.ActingFor(t.Context(), auth.Identity{Principal: w.Principal(t, one)}, fields)
	info := func(u handler.Upload) handler.FileInfo {
		t.Helper()
		got, err := u.GetInfo(ctx)
		must(t, err)
		return got
	}
	again := func(id string) handler.Upload {
		t.Helper()
		u, err := store.GetUpload(ctx, id)
		must(t, err)
		return u
	}
	file := noise(12 << 20)
	made, err := store.NewUpload(ctx, handler.FileInfo{Size: int64(len(file))})
	must(t, err)
	id := info(made).ID
	if got := info(again(id)); got.ID != id || got.Size != int64(len(file)) || got.Offset != 0 || got.SizeIsDeferred {
		t.Errorf("a new upload is %+v", got)
	}
	// The returned number is that of the stored bytes, with and without an error.
	if n, err := again(id).WriteChunk(ctx, 0, bytes.NewReader(file[:1000])); n != 1000 || err != nil {
		t.Errorf("a chunk: %d, %v", n, err)
	}
	errBroken := errors.New("broken")
	cut := io.MultiReader(bytes.NewReader(file[1000:7<<20]), iotest.ErrReader(errBroken))
	if n, err := again(id).WriteChunk(ctx, 1000, cut); n != 7<<20-1000 || !errors.Is(err, errBroken) {
		t.Errorf("a chunk that failed: %d, %v", n, err)
	}
	if got := info(again(id)); got.Offset != 7<<20 {
		t.Errorf("the offset is %d", got.Offset)
	}
	u := again(id)
	if n, err := u.WriteChunk(ctx, 7<<20, bytes.NewReader(file[7<<20:])); n != 5<<20 || err != nil {
		t.Errorf("the last chunk: %d, %v", n, err)
	}
	must(t, u.FinishUpload(ctx))
	must(t, u.FinishUpload(ctx)) // it may be repeated
	if got := info(again(id)); got.Offset != got.Size {
		t.Errorf("the offset of a finished upload is %d", got.Offset)
	}
	if _, err := u.GetReader(ctx); !errors.Is(err, handler.ErrNotImplemented) {
		t.Errorf("a reader: %v", err)
	}
	if n := w.count(t, "/"+id); n != 1 {
		t.Errorf("%d drafts", n)
	}
	// An upload that can't be found, that is another tenant's or was terminated is ErrNotFound.
	deferred, err := store.NewUpload(ctx, handler.FileInfo{SizeIsDeferred: true})
	must(t, err)
	if got := info(deferred); !got.SizeIsDeferred {
		t.Errorf("an upload without a length is %+v", got)
	}
	must(t, store.(handler.LengthDeferrerDataStore).AsLengthDeclarableUpload(deferred).DeclareLength(ctx, 10))
	ended := info(deferred).ID
	if got := info(again(ended)); got.SizeIsDeferred || got.Size != 10 {
		t.Errorf("with its length the upload is %+v", got)
	}
	must(t, store.(handler.TerminaterDataStore).AsTerminatableUpload(deferred).Terminate(ctx))
	otherTenant := tus.ActingFor(t.Context(), auth.Identity{Principal: w.Principal(t, two)}, fields)
	for name, c := range map[string]struct {
		ctx context.Context
		id  string
	}{"missing": {ctx, uuid.NewString()}, "terminated": {ctx, ended}, "another tenant's": {otherTenant, id}} {
		if _, err := store.GetUpload(c.ctx, c.id); !errors.Is(err, handler.ErrNotFound) {
			t.Errorf("an upload that is %s: %v", name, err)
		}
	}
	w.purged(t, one)
}

// process is the locks of one process of the runtime, which is connected: a test that waits for a lock for a short
// time must not spend that on the connection.
func (w *world) process(t *testing.T) *postgres.UploadLocks {
	t.Helper()
	locks := w.Store.Uploads.UploadLocks(slog.New(slog.DiscardHandler))
	running, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = locks.Run(running) })
	t.Cleanup(func() { stop(); done.Wait() })
	unlock, err := locks.Lock(t.Context(), uuid.New(), func() {}, proceed)
	must(t, err)
	unlock()
	return locks
}

// A lock has one holder at a time across processes; the holder is asked to release it.
func TestLocks_KeepTheContractOfTusd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.process(t), w.process(t)
	for name, other := range map[string]*postgres.UploadLocks{"in the same process": here, "in another process": there} {
		id := uuid.New()
		untilAsked, onRelease := context.WithCancel(t.Context())
		unlock, err := here.Lock(t.Context(), id, onRelease, proceed)
		must(t, err)
		if _, err := other.Lock(untilAsked, id, func() {}, proceed); !fault.Is(err, fault.Busy) {
			t.Errorf("%s: a lock that is held: %v", name, err)
		}
		unlock()
		unlockOther, err := other.Lock(t.Context(), id, func() {}, proceed)
		must(t, err)
		unlockOther()
	}
	// tusd gets exactly ErrLockTimeout when its context ends.
	one := w.tenant(t, "one")
	principal := w.Principal(t, one)
	uploads := w.uploads(t)
	created, err := uploads.CreateResumable(t.Context(), principal, 1, media.Fields{}, "")
	must(t, err)
	id := tus.LockName(principal.App.ID, created.State().ItemID)
	untilAsked, onRelease := context.WithCancel(tus.ActingFor(t.Context(), auth.Identity{Principal: principal}, media.Fields{}))
	unlock, err := there.Lock(t.Context(), id, onRelease, proceed)
	must(t, err)
	lock, err := tus.LockerFor(uploads, here).NewLock(created.State().ItemID.String())
	must(t, err)
	if err := lock.Lock(untilAsked, func() {}); !errors.Is(err, handler.ErrLockTimeout) {
		t.Errorf("tusd gets %v", err)
	}
	unlock()

	// Many concurrent requests for one lock: never two holders at once.
	var holders, most atomic.Int64
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			unlock, err := []*postgres.UploadLocks{here, there}[n%2].Lock(t.Context(), id, func() {}, proceed)
			if err != nil {
				t.Error(err)
				return
			}
			if now := holders.Add(1); now > 1 {
				most.Store(now)
			}
			_, _ = w.Store.Uploads.FindResumable(t.Context(), media.Scope{}, id) // for a moment
			holders.Add(-1)
			unlock()
		})
	}
	all.Wait()
	if n := most.Load(); n != 0 {
		t.Errorf("%d holders at once", n)
	}
}

// A lock ends with the connection that holds it: its holder is notified, another process gets
// the lock, and a later unlock by the first does not release it.
func TestLocks_LostLockCanBeTakenByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.process(t)
	id, lost := uuid.New(), make(chan struct{})
	unlock, err := here.Lock(t.Context(), id, sync.OnceFunc(func() { close(lost) }), proceed)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	must(t, err)
	<-lost
	there := w.process(t)
	untilAsked, onRelease := context.WithCancel(t.Context())
	unlockThere, err := there.Lock(t.Context(), id, onRelease, proceed)
	must(t, err)
	unlock()
	wait.Until(t, "the first process locks again", func() bool {
		other, err := here.Lock(t.Context(), uuid.New(), func() {}, proceed)
		if err != nil {
			return false
		}
		other()
		return true
	})
	if _, err := here.Lock(untilAsked, id, func() {}, proceed); !fault.Is(err, fault.Busy) {
		t.Errorf("the lock of the other process was released: %v", err)
	}
	unlockThere()
	again, err := here.Lock(t.Context(), id, func() {}, proceed)
	must(t, err)
	again()
}
