package tus_test

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// Invariant 7: the upload of another app gets the same response as one that does not exist,
// for every method, while it is incomplete and when it is complete.
func TestUpload_OfAnotherAppIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	app := w.AddApp(t, one, "other")
	rt := w.replica(t)
	running := rt.created(t, one.Key, 6, metadata("group", "g"))
	rt.sent(t, one.Key, running, 0, []byte("abc"))
	complete := rt.created(t, one.Key, 3, metadata("group", "g"))
	rt.sent(t, one.Key, complete, 0, []byte("abc"))
	missing := collection + "/0190a0a0-0000-7000-8000-000000000000"
	principal := w.Principal(t, one)
	for who, credential := range map[string]option{
		"another tenant":                    key(two.Key),
		"another app":                       key(app.Key),
		"another tenant's signature":        signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, two)}, "")),
		"another app's signature":           signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, app)}, "")),
		"a signature for another group":     signature(rt.Auth.Sign(auth.Identity{Principal: principal}, "h")),
		"another tenant's, for the group":   signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, two)}, "g")),
		"a signature for the group's child": signature(rt.Auth.Sign(auth.Identity{Principal: principal}, "g/h")),
	} {
		for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
			want := rt.do(t, method, missing, credential, at(3), chunk([]byte("def")))
			for name, address := range map[string]string{"a running upload": running, "a complete one": complete} {
				got := rt.do(t, method, address, credential, at(3), chunk([]byte("def")))
				for _, varies := range []string{"Date", "X-Request-Id"} {
					got.Header.Del(varies)
					want.Header.Del(varies)
				}
				if got.Status != http.StatusNotFound || want.Status != http.StatusNotFound || !bytes.Equal(got.Body, want.Body) || !same(got.Header, want.Header) {
					t.Errorf("%s, %s of %s: %d %v %s; of a missing one: %d %v %s", who, method, name, got.Status, got.Header, got.Body, want.Status, want.Header, want.Body)
				}
			}
		}
	}
	for who, credential := range map[string]option{
		"the key":                   key(one.Key),
		"a signature of it":         signature(rt.Auth.Sign(auth.Identity{Principal: principal}, "")),
		"a signature for the group": signature(rt.Auth.Sign(auth.Identity{Principal: principal}, "g")),
	} {
		if got := rt.do(t, http.MethodHead, running, credential); got.Status != http.StatusOK || got.Header.Get("Upload-Offset") != "3" {
			t.Errorf("%s: %d %v", who, got.Status, got.Header)
		}
	}
	// The group of the signature replaces that of the client.
	got := rt.do(t, http.MethodPost, collection, signature(rt.Auth.Sign(auth.Identity{Principal: principal}, "g")), length(3), metadata("group", "h"), chunk([]byte("abc")))
	if item := got.document(t); item.Group != "g" {
		t.Errorf("the group is %q", item.Group)
	}
	rt.complete(t, one.Key, running, []byte("abcdef"))
	w.purged(t, one)
}

func same(a, b http.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if a.Get(name) != b.Get(name) {
			return false
		}
	}
	return true
}

// A signature permits uploads. It does not permit to read a sealed item.
func TestSignature_ReadsTheDraftButNotTheSealedItem(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	signed := signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, ""))
	got := rt.do(t, http.MethodPost, collection, signed, length(3), chunk([]byte("abc")))
	item, address := got.document(t), got.Header.Get("Location")
	if rt.do(t, http.MethodHead, address, signed).document(t).MediaId != item.MediaId {
		t.Error("it is another draft")
	}
	rt.do(t, http.MethodPost, "/media/seal/"+item.MediaId.String(), key(one.Key)).MustBe(t, http.StatusOK, "seal")
	got = rt.do(t, http.MethodHead, address, signed)
	if got.Status != http.StatusOK || got.Header.Get("x-service-media-id") != item.MediaId.String() || got.Header.Get("x-service-media") != "" {
		t.Errorf("HEAD of a sealed item with a signature: %d %v", got.Status, got.Header)
	}
	if rt.do(t, http.MethodHead, address, key(one.Key)).document(t).Temp {
		t.Error("it is a draft")
	}
}

// An invalid credential gets the response that it gets in REST: 401, and 403 for a signature.
func TestInvalidCredential_UploadsNothing(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	address := rt.created(t, one.Key, 6)
	rt.sent(t, one.Key, address, 0, []byte("abc"))
	granted := rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, "")
	expectRejected := func(who string, status int, credential option) {
		t.Helper()
		for method, path := range map[string]string{http.MethodPost: collection, http.MethodHead: address, http.MethodPatch: address, http.MethodDelete: address} {
			got := rt.do(t, method, path, credential, at(3), length(6), chunk([]byte("def")))
			if got.Status != status || got.Header.Get("Upload-Offset") != "" || got.Header.Get("Location") != "" {
				t.Errorf("%s, %s: %d %v", who, method, got.Status, got.Header)
			}
			if method != http.MethodHead {
				got.rejected(t, status)
			}
		}
	}
	expectRejected("nobody", http.StatusUnauthorized, key(""))
	expectRejected("a key of nobody", http.StatusUnauthorized, key(one.Key+"x"))
	expectRejected("a signature that was changed", http.StatusForbidden, signature(granted+"x"))
	expectRejected("two credentials", http.StatusBadRequest, func(r *request) { key(one.Key)(r); signature(granted)(r) })

	// A revoked key, and its signatures, can't continue the uploads that were started with it.
	fresh, _, err := w.Registry.IssueKey(t.Context(), one.App.ID, 2, 0)
	must(t, err)
	wait.Until(t, "the key is revoked", func() bool {
		return rt.do(t, http.MethodHead, address, key(one.Key)).Status == http.StatusUnauthorized
	})
	expectRejected("a revoked key", http.StatusUnauthorized, key(one.Key))
	expectRejected("a revoked key's signature", http.StatusForbidden, signature(granted))
	if n := rt.offset(t, fresh.Reveal(), address); n != 3 { // the app's, whatever its key
		t.Errorf("with the new key the offset is %d", n)
	}
	one.Key = fresh.Reveal()
	granted = rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, "")
	suspend := func(yes bool) {
		one.Spec.Suspended = yes
		_, err := w.Registry.Ensure(t.Context(), one.Spec)
		must(t, err)
		want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusOK}[yes]
		wait.Until(t, "the account is suspended, or not any more", func() bool {
			return rt.do(t, http.MethodHead, address, key(one.Key)).Status == want
		})
	}
	suspend(true)
	expectRejected("a suspended account", http.StatusUnauthorized, key(one.Key))
	expectRejected("a suspended account's signature", http.StatusForbidden, signature(granted))
	suspend(false)
	rt.complete(t, one.Key, address, []byte("abcdef"))
	w.purged(t, one)
}

// The limits of one account do not apply to another.
func TestCap_OfOneAccountDoesNotAffectAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := w.tenant(t, "full", func(s *account.Spec) { s.MaxStorage = 10 })
	free := w.tenant(t, "free")
	rt := w.replica(t)
	rt.created(t, full.Key, 10)
	rt.do(t, http.MethodPost, collection, key(full.Key), length(1)).rejected(t, http.StatusRequestEntityTooLarge)
	rt.complete(t, free.Key, rt.created(t, free.Key, 3), []byte("abc"))
}

// countingStore counts how often an upload is read.
type countingStore struct {
	upload.Store
	reads atomic.Int64
}

func (s *countingStore) FindResumable(ctx context.Context, scope media.Scope, id uuid.UUID) (upload.ResumableState, error) {
	s.reads.Add(1)
	return s.Store.FindResumable(ctx, scope, id)
}

// A request once read its upload twice: to authorize the client, and again under the lock.
func TestRequest_ReadsItsUploadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	counting := &countingStore{Store: w.Store.Uploads}
	rt := w.replica(t, func(o *options) { o.Uploads = counting })
	address := rt.created(t, one.Key, 6)
	for name, request := range map[string]func(){
		"PATCH":  func() { rt.sent(t, one.Key, address, 0, []byte("abc")) },
		"HEAD":   func() { rt.offset(t, one.Key, address) },
		"DELETE": func() { rt.do(t, http.MethodDelete, rt.created(t, one.Key, 1), key(one.Key)) },
	} {
		counting.reads.Store(0)
		if request(); counting.reads.Load() != 1 {
			t.Errorf("%s read the upload %d times", name, counting.reads.Load())
		}
	}
	w.purged(t, one)
}

// A request that may not use an upload gets its response while another one holds the lock, and
// does not interrupt that one: neither its delay nor its status reveals that the upload exists.
func TestRequest_OfAnotherAppDoesNotInterruptAPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	here, there := w.replica(t), w.replica(t)
	principal, file := w.Principal(t, one), noise(3000)
	address := here.created(t, one.Key, len(file), metadata("group", "g"))
	held := runtimetest.NewPausedBody(bytes.NewReader(file[:1000]), bytes.NewReader(file[1000:]))
	patched := make(chan answer, 1)
	go func() {
		got, err := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(held), func(r *request) { runtimetest.Expect(r.Header) })
		if err != nil {
			t.Error(err)
		}
		patched <- got
	}()
	held.Wait(t) // the PATCH has the lock
	for who, credential := range map[string]option{
		"another tenant":                key(two.Key),
		"another app":                   key(w.AddApp(t, one, "other").Key),
		"a signature for another group": signature(here.Auth.Sign(auth.Identity{Principal: principal}, "h")),
	} {
		for _, rt := range []*replica{here, there} {
			for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
				rt.do(t, method, address, credential, at(0), chunk([]byte("def"))).Is(t, http.StatusNotFound, "%s, %s", who, method)
			}
		}
	}
	held.Release()
	got := <-patched
	got.MustBe(t, http.StatusNoContent, "the PATCH")
	here.holds(t, got.document(t), file)
	w.purged(t, one)
}
