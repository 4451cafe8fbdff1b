package tus_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/auth"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/tus"
)

// The credential was checked only with the headers: a body that started in time and was held
// back became a draft of a revoked key.
func TestPatch_MakesNoDraftWhenTheCredentialEndsDuringTheBody(t *testing.T) {
	t.Parallel()
	data := noise(6 << 20)
	for how, end := range map[string]func(*testing.T, *world, tenant) (goOn string){
		"revoked": func(t *testing.T, w *world, of tenant) string {
			token, _, err := w.Registry.IssueKey(t.Context(), of.App.ID, 2, 0)
			must(t, err)
			return token.Reveal()
		},
		"suspended": func(t *testing.T, w *world, of tenant) string { w.suspend(t, of, true); return of.Key },
	} {
		for name, tt := range map[string]struct {
			first, length int
			created       bool // by another request
			signed        bool
		}{
			"to the end":                    {first: len(data) - 1, length: len(data), created: true},
			"to the end, by a signature":    {first: len(data) - 1, length: len(data), created: true, signed: true},
			"not to the end":                {first: 1 << 20, length: len(data) + 1, created: true},
			"to the end, in one request":    {first: len(data) - 1, length: len(data)},
			"whole, and held after its end": {first: len(data), length: len(data), created: true},
		} {
			t.Run(how+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				one := w.tenant(t, "one")
				rt := w.replica(t)
				with, status := key(one.Key), http.StatusUnauthorized
				if tt.signed {
					with, status = signature(rt.auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, "")), http.StatusForbidden
				}
				held := runtimetest.NewPausedBody(bytes.NewReader(data[:tt.first]), bytes.NewReader(data[tt.first:min(tt.length, len(data))]))
				method, address, offset := http.MethodPost, collection, length(tt.length)
				if tt.created {
					method, address, offset = http.MethodPatch, rt.created(t, one.Key, tt.length), at(0)
				}
				var got answer
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					got, err = rt.try(t.Context(), method, address, with, offset, stream(held), func(r *request) { runtimetest.Expect(r.header) })
				}()
				held.Wait(t)
				goOn := end(t, w, one)
				eventually(t, 10*time.Second, "the key is rejected", func() bool {
					return rt.do(t, http.MethodGet, "/media/get/count", key(one.Key)).status == http.StatusUnauthorized
				})
				held.Release()
				<-done
				must(t, err)
				if got.rejected(t, status); (got.header.Get("WWW-Authenticate") != "") != (status == http.StatusUnauthorized) {
					t.Errorf("the error response has the headers %v", got.header)
				}
				if n := w.QueryInt(t, `SELECT count(*) FROM item`); n != 0 {
					t.Fatalf("there are %d drafts", n)
				}
				// The received bytes belong to the app: a valid credential continues the upload.
				w.suspend(t, one, false)
				eventually(t, 10*time.Second, "the app is served", func() bool {
					return rt.do(t, http.MethodGet, "/media/get/count", key(goOn)).status == http.StatusOK
				})
				if !tt.created {
					address = got.header.Get("Location")
				}
				if tt.length == len(data) {
					rt.complete(t, goOn, address, data)
				} else if n := rt.offset(t, goOn, address); n != len(data) {
					t.Errorf("the offset is %d", n)
				}
			})
		}
	}
}

// The check after the body used the cache: a PATCH that ended between the commit of a
// suspension and its notification made a draft.
func TestPatch_MakesNoDraftBeforeTheNotificationOfASuspension(t *testing.T) {
	t.Parallel()
	data := noise(1 << 20)
	for name, tt := range map[string]struct {
		with   func(rt *replica, w *world, of tenant) option
		status int
	}{
		"key": {func(_ *replica, _ *world, of tenant) option { return key(of.Key) }, http.StatusUnauthorized},
		"signature": {func(rt *replica, w *world, of tenant) option {
			return signature(rt.auth.Sign(auth.Identity{Principal: w.Principal(t, of)}, ""))
		}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.tenant(t, "one")
			rt := w.replica(t, func(o *options) { o.deaf = true })
			with := tt.with(rt, w, one)
			address := rt.created(t, one.Key, len(data))
			held := runtimetest.NewPausedBody(bytes.NewReader(data[:1000]), bytes.NewReader(data[1000:]))
			var got answer
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, err = rt.try(t.Context(), http.MethodPatch, address, with, at(0), stream(held), func(r *request) { runtimetest.Expect(r.header) })
			}()
			held.Wait(t)
			w.suspend(t, one, true)
			held.Release()
			<-done
			must(t, err)
			got.rejected(t, tt.status)
			if n := w.QueryInt(t, `SELECT count(*) FROM item`); n != 0 {
				t.Errorf("there are %d drafts", n)
			}
		})
	}
}

// A request may wait for the lock while its credential ends.
func TestDelete_ReauthenticatesAfterWaitingForTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	address := rt.created(t, one.Key, 3)
	waits := make(chan struct{})
	unlock, err := w.process(t).Lock(t.Context(), tus.LockName(one.App.ID, uuid.MustParse(idOf(address))), sync.OnceFunc(func() { close(waits) }), proceed)
	must(t, err)
	answered := make(chan answer, 1)
	go func() {
		got, _ := rt.try(t.Context(), http.MethodDelete, address, key(one.Key))
		answered <- got
	}()
	<-waits
	w.suspend(t, one, true)
	eventually(t, 10*time.Second, "the key is rejected", func() bool {
		return rt.do(t, http.MethodGet, "/media/get/count", key(one.Key)).status == http.StatusUnauthorized
	})
	unlock()
	got := <-answered
	got.rejected(t, http.StatusUnauthorized)
	if n := w.QueryInt(t, `SELECT count(*) FROM upload`); n != 1 {
		t.Errorf("%d uploads exist", n)
	}
}

// suspend suspends or resumes an account.
func (w *world) suspend(t *testing.T, of tenant, suspended bool) {
	t.Helper()
	of.Spec.Suspended = suspended
	_, err := w.Registry.Ensure(t.Context(), of.Spec)
	must(t, err)
}
