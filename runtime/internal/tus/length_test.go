package tus_test

import (
	"net/http"
	"sync"
	"testing"
)

func TestDeferredLength_IsDeclaredOnce(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	file := noise(18 << 20)
	deferred := func(change ...option) string {
		got := rt.do(t, http.MethodPost, collection, append([]option{key(one.Key), header("Upload-Defer-Length", "1")}, change...)...)
		got.MustBe(t, http.StatusCreated, "the answer")
		return got.Header.Get("Location")
	}
	address := deferred()
	rt.sent(t, one.Key, address, 0, file[:17<<20])
	if got := rt.do(t, http.MethodHead, address, key(one.Key)); got.Header.Get("Upload-Defer-Length") != "1" || got.Header.Get("Upload-Length") != "" || got.Header.Get("Upload-Offset") != "17825792" {
		t.Errorf("HEAD returns %v", got.Header)
	}
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), length(1000), chunk(nil)).rejected(t, http.StatusBadRequest)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), length(maxUploadSize+1), chunk(nil)).rejected(t, http.StatusRequestEntityTooLarge)
	for _, wrong := range []string{"-1", "+18", "1e3", "x", "99999999999999999999"} {
		rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), header("Upload-Length", wrong), chunk(nil)).rejected(t, http.StatusBadRequest)
	}
	rt.sent(t, one.Key, address, 17<<20, nil, length(len(file)))
	// A client that lost the response may declare the length again, but can't change it.
	rt.sent(t, one.Key, address, 17<<20, file[17<<20:17<<20+10], length(len(file)))
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20+10), length(len(file)+1), chunk(nil)).rejected(t, http.StatusBadRequest)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20+10), length(len(file)-1), chunk(nil)).rejected(t, http.StatusBadRequest)
	rt.complete(t, one.Key, address, file)
	// The length may be declared after the last byte, or with the first; and may be 0.
	for _, size := range []int{0, 1000, 17 << 20} {
		address := deferred(chunk(file[:size]))
		if n := rt.offset(t, one.Key, address); n != size {
			t.Errorf("the offset of %d is %d", size, n)
		}
		rt.holds(t, rt.sent(t, one.Key, address, size, nil, length(size)).document(t), file[:size])
	}
	rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "2")).rejected(t, http.StatusBadRequest)
	rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1"), length(3)).rejected(t, http.StatusBadRequest)
	w.purged(t, one)
}

// A PATCH that repeats the length, while the one that declared it first is still running,
// was rejected with 400: it had read the upload before it had the lock.
func TestDeferredLength_MayBeRepeatedWhileTheFirstRequestRuns(t *testing.T) {
	t.Parallel()
	w, one, plain := withTenant(t)
	file := noise(1000)
	var address string
	var declared sync.Once
	raced := w.replica(t, func(o *options) {
		o.BeforeLock = func() {
			declared.Do(func() {
				plain.do(t, http.MethodPatch, address, key(one.Key), at(0), header("Upload-Length", "1000"), chunk(file[:400]))
			})
		}
	})
	address = plain.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1")).Header.Get("Location")
	got := raced.do(t, http.MethodPatch, address, key(one.Key), at(400), header("Upload-Length", "1000"), chunk(file[400:]))
	if got.Status != http.StatusNoContent || got.Header.Get("Upload-Offset") != "1000" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
}
