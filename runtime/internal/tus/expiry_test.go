package tus_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
)

// advance advances the clocks of all replicas.
func advance(by time.Duration, replicas ...*replica) {
	for _, rt := range replicas {
		rt.Clock.Advance(by)
	}
}

// An expired upload was served until the purge ran, up to an hour later.
func TestExpiredUpload_IsGoneAtOnceAtEveryReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	const size = 6 << 20
	address := here.created(t, one.Key, size)
	expires, err := http.ParseTime(here.sent(t, one.Key, address, 0, noise(5<<20)).Header.Get("Upload-Expires"))
	must(t, err)
	advance(expires.Sub(here.Clock.Now())-time.Minute, here, there)
	for _, rt := range []*replica{here, there} {
		if n := rt.offset(t, one.Key, address); n != 5<<20 {
			t.Errorf("a minute before its expiry the offset is %d", n)
		}
	}
	advance(time.Minute, here, there)
	for _, rt := range []*replica{here, there} {
		for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
			rt.do(t, method, address, key(one.Key), at(5<<20), chunk(noise(1<<20))).Is(t, http.StatusNotFound, "%s of an expired upload", method)
		}
		rt.do(t, http.MethodPost, address, key(one.Key), at(5<<20), chunk(nil), header("X-HTTP-Method-Override", http.MethodPatch)).rejected(t, http.StatusNotFound)
		rt.do(t, http.MethodPost, "/media/seal/"+idOf(address), key(one.Key)).Is(t, http.StatusNotFound, "sealing an expired upload")
	}
	// The purge frees its storage.
	w.Counts(t, size, "bytes are reserved before the purge", `SELECT bytes FROM account_usage`)
	w.purged(t, one)
}

// patching starts a PATCH with a body that the test writes.
func (rt *replica) patching(t *testing.T, k, address string, offset int) (body *io.PipeWriter, result <-chan answer) {
	t.Helper()
	read, write := io.Pipe()
	got := make(chan answer, 1)
	go func() {
		a, err := rt.try(t.Context(), http.MethodPatch, address, key(k), at(offset), stream(read))
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	return write, got
}

func TestRunningPatch_ExtendsTheExpiryWithItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(2 << 20)
	address := here.created(t, one.Key, len(file))
	ends := func() int64 { return w.QueryInt(t, `SELECT extract(epoch FROM lease_ends)::bigint FROM upload`) }
	before := ends()
	advance(24*time.Hour-time.Minute, here, there)
	body, patched := here.patching(t, one.Key, address, 0)
	_, err := body.Write(file[:1000])
	must(t, err)
	wait.Until(t, "the bytes extend the expiry", func() bool { return ends() > before })
	advance(2*time.Minute, here, there)
	// HEAD takes the upload over, and the received bytes are kept.
	if n := there.offset(t, one.Key, address); n != 1000 {
		t.Errorf("after the first expiry the offset is %d", n)
	}
	(<-patched).Is(t, http.StatusLocked, "the PATCH that was taken over")
	must(t, body.Close())
	there.complete(t, one.Key, address, file)
	w.purged(t, one)
}

func TestRunningPatch_ContinuesWhenTheExpiryPassesBeforeItsFirstByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(2 << 20)
	address := here.created(t, one.Key, len(file))
	advance(24*time.Hour-time.Minute, here, there)
	held := runtimetest.NewPausedBody(strings.NewReader(""), bytes.NewReader(file))
	patched := make(chan answer, 1)
	go func() {
		got, err := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(held), func(r *request) { runtimetest.Expect(r.Header) })
		if err != nil {
			t.Error(err)
		}
		patched <- got
	}()
	held.Wait(t) // the request has found the upload, and has the lock
	advance(2*time.Minute, here, there)
	there.do(t, http.MethodHead, address, key(one.Key)).Is(t, http.StatusNotFound, "HEAD before the first byte of the PATCH")
	held.Release()
	got := <-patched
	got.MustBe(t, http.StatusNoContent, "PATCH")
	there.holds(t, got.document(t), file)
	w.purged(t, one)
}

// The URL of a finished upload expires; the draft does not.
func TestFinishedUpload_StaysADraftUntilThePurge(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	address := rt.created(t, one.Key, 3)
	rt.sent(t, one.Key, address, 0, []byte("abc"))
	advance(25*time.Hour, rt)
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		rt.do(t, method, address, key(one.Key), at(3), chunk(nil)).Is(t, http.StatusNotFound, "%s of a finished upload after its expiry", method)
	}
	// A draft older than 24 h exists until the purge deletes it, unless it is sealed first.
	for _, path := range []string{"/media/get/", "/media/seal/", "/media/get/"} {
		rt.do(t, http.MethodPost, path+idOf(address), key(one.Key)).MustBe(t, http.StatusOK, "%s of a draft over 24 h", path)
	}
	purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, MaxAttempts: 10, RemovalConfig: media.RemovalConfig{BatchSize: 100, MaxBackoff: time.Hour}}, media.PurgeDeps{Store: w.Store.Items, Tasks: w.Store.Tasks, Objects: w.Objects, Guard: w.Guard(), Now: rt.Clock.Now, Log: rt.Logs.Logger()})
	must(t, err)
	if summary, err := purger.Run(t.Context()); err != nil || summary.DraftsPurged != 0 {
		t.Errorf("the purge deleted a sealed item: %+v %v", summary, err)
	}
	var item api.MediaItem
	must(t, json.Unmarshal(rt.do(t, http.MethodGet, "/media/get/"+idOf(address), key(one.Key)).Body, &item))
	rt.holds(t, item, []byte("abc"))
}

func TestUpload_ExpiresAtItsUploadExpires(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	expires := func(got answer) time.Time {
		at, err := http.ParseTime(got.Header.Get("Upload-Expires"))
		must(t, err)
		return at
	}
	got := rt.do(t, http.MethodPost, collection, key(one.Key), length(10))
	address := got.Header.Get("Location")
	first := expires(got)
	if left := first.Sub(rt.Clock.Now()); left < 24*time.Hour-5*time.Minute || left > 24*time.Hour {
		t.Errorf("it expires in %s", left)
	}
	rt.Clock.Advance(time.Hour)
	if again := expires(rt.do(t, http.MethodHead, address, key(one.Key))); !again.Equal(first) {
		t.Errorf("HEAD moved the expiry from %s to %s", first, again)
	}
	if later := expires(rt.sent(t, one.Key, address, 0, []byte("abc"))); later.Before(first.Add(time.Hour - time.Second)) {
		t.Errorf("bytes moved the expiry from %s to %s", first, later)
	}
	w.purged(t, one)
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		rt.do(t, method, address, key(one.Key), at(3), chunk([]byte("defghij"))).Is(t, http.StatusNotFound, "%s of an expired upload", method)
	}
}

// Only an incomplete upload has Upload-Expires: a client would take that of a complete one for
// the time at which the draft is deleted.
func TestUploadExpires_IsSentUntilTheUploadIsComplete(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	address := rt.created(t, one.Key, 2)
	for name, tt := range map[string]struct {
		got     answer
		expires bool
	}{
		"created":            {rt.do(t, http.MethodPost, collection, key(one.Key), length(2)), true},
		"created with bytes": {rt.do(t, http.MethodPost, collection, key(one.Key), length(2), chunk([]byte("a"))), true},
		"not complete":       {rt.do(t, http.MethodHead, address, key(one.Key)), true},
		"sent":               {rt.sent(t, one.Key, address, 0, []byte("a")), true},
		"completed":          {rt.sent(t, one.Key, address, 1, []byte("b")), false},
		"complete":           {rt.do(t, http.MethodHead, address, key(one.Key)), false},
		"created empty":      {rt.do(t, http.MethodPost, collection, key(one.Key), length(0)), false},
		"created whole":      {rt.do(t, http.MethodPost, collection, key(one.Key), length(1), chunk([]byte("a"))), false},
		"created, deferred":  {rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1")), true},
	} {
		_, sent := tt.got.Header["Upload-Expires"]
		if _, complete := tt.got.Header["X-Service-Media-Id"]; sent != tt.expires || complete == tt.expires {
			t.Errorf("%s: %d %v", name, tt.got.Status, tt.got.Header)
		}
	}
}
