package tus_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// hookedStore is the real store with hooks before and after the commit.
type hookedStore struct {
	upload.Store
	before, after func()
}

func (s *hookedStore) CommitResumable(ctx context.Context, item media.Item, by account.Actor, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	if s.before != nil {
		s.before()
	}
	removal, err := s.Store.CommitResumable(ctx, item, by, incompleteParts, notBefore)
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
	if got.Status >= 300 || got.Header.Get("Upload-Offset") != strconv.Itoa(size) {
		return false
	}
	if n := w.count(t, address); n != 1 {
		t.Errorf("reported complete (%d %v) with %d drafts", got.Status, got.Header, n)
	}
	if got.Header.Get("x-service-media-id") != idOf(address) {
		t.Errorf("reported complete without the id: %v", got.Header)
	}
	return true
}

// insist continues an upload as clients do, with pieces of up to maxPiece bytes, at any of
// the replicas, until a response reports that the upload is complete.
func (w *world) insist(t *testing.T, k, address string, file []byte, maxPiece int, replicas ...*replica) answer {
	t.Helper()
	for ctx, until := t.Context(), time.Now().Add(wait.Timeout(t)); time.Now().Before(until); {
		got, err := replicas[rand.IntN(len(replicas))].try(ctx, http.MethodHead, address, key(k))
		if err != nil || got.Status == http.StatusLocked {
			continue
		}
		if w.promised(t, got, address, len(file)) {
			return got
		}
		at0, err := strconv.Atoi(got.Header.Get("Upload-Offset"))
		if got.Status != http.StatusOK || err != nil {
			t.Fatalf("HEAD: %d %v", got.Status, got.Header)
		}
		to := min(len(file), at0+1+rand.IntN(maxPiece))
		got, err = replicas[rand.IntN(len(replicas))].try(ctx, http.MethodPatch, address, key(k), at(at0), chunk(file[at0:to]))
		switch {
		case err != nil:
		case w.promised(t, got, address, len(file)):
			return got
		case got.Status != http.StatusNoContent && got.Status != http.StatusConflict && got.Status != http.StatusLocked && got.Status < 500:
			t.Fatalf("PATCH: %d %s", got.Status, got.Body)
		}
	}
	t.Fatal("the upload does not complete")
	return answer{}
}

// sizes are of a file that is stored with one request, and of one that is stored in parts.
var sizes = map[string]int{"a small file": 3000, "a file in parts": 20<<20 + 5}

// impatient is for replicas that are to answer 423 while an upload cannot be locked.
func impatient(o *options) { o.LockTimeout = 10 * time.Second }

// reconnect waits until the test's own connections to the database work again.
func (w *world) reconnect(t *testing.T) {
	t.Helper()
	for range 8 { // as many as the pool has
		wait.Until(t, "the database is back", func() bool { return w.Store.Ping(t.Context()) == nil })
	}
}

// binary starts the shipped runtime.
func (w *world) binary(t *testing.T, access testenv.S3Access) (*replica, *testenv.Process) {
	t.Helper()
	runtime := testenv.Runtime(t, testenv.RuntimeConfig{BaseURL: baseURL, Secret: strings.Repeat("ab", 32),
		Stores: testenv.StoreSettings(w.Database.DatabaseURL, access), Env: []string{"SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0"}})
	transport := runtimetest.Dialer(runtime.Addr)
	t.Cleanup(transport.CloseIdleConnections)
	return &replica{&runtimetest.Service{Replica: &runtimetest.Replica{Client: &http.Client{Transport: transport, Timeout: 2 * wait.Timeout(t)}}}}, runtime.Process
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
