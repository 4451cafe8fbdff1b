package tus_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/auth"
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
					with, status = signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, "")), http.StatusForbidden
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
					got, err = rt.try(t.Context(), method, address, with, offset, stream(held), func(r *request) { runtimetest.Expect(r.Header) })
				}()
				held.Wait(t)
				goOn := end(t, w, one)
				wait.Until(t, "the key is rejected", func() bool {
					return rt.do(t, http.MethodGet, "/media/get/count", key(one.Key)).Status == http.StatusUnauthorized
				})
				held.Release()
				<-done
				must(t, err)
				if got.rejected(t, status); (got.Header.Get("WWW-Authenticate") != "") != (status == http.StatusUnauthorized) {
					t.Errorf("the error response has the headers %v", got.Header)
				}
				if n := w.QueryInt(t, `SELECT count(*) FROM item`); n != 0 {
					t.Fatalf("there are %d drafts", n)
				}
				// The received bytes belong to the app: a valid credential continues the upload.
				w.suspend(t, one, false)
				wait.Until(t, "the app is served", func() bool {
					return rt.do(t, http.MethodGet, "/media/get/count", key(goOn)).Status == http.StatusOK
				})
				if !tt.created {
					address = got.Header.Get("Location")
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
			return signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, of)}, ""))
		}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.tenant(t, "one")
			rt := w.deafReplica(t)
			with := tt.with(rt, w, one)
			address := rt.created(t, one.Key, len(data))
			held := runtimetest.NewPausedBody(bytes.NewReader(data[:1000]), bytes.NewReader(data[1000:]))
			var got answer
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, err = rt.try(t.Context(), http.MethodPatch, address, with, at(0), stream(held), func(r *request) { runtimetest.Expect(r.Header) })
			}()
			held.Wait(t)
			w.suspend(t, one, true)
			held.Release()
			<-done
			must(t, err)
			got.rejected(t, tt.status)
			w.Counts(t, 0, "drafts", `SELECT count(*) FROM item`)
		})
	}
}

// A request may wait for the lock while its credential ends.
func TestDelete_ReauthenticatesAfterWaitingForTheLock(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
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
	wait.Until(t, "the key is rejected", func() bool {
		return rt.do(t, http.MethodGet, "/media/get/count", key(one.Key)).Status == http.StatusUnauthorized
	})
	unlock()
	got := <-answered
	got.rejected(t, http.StatusUnauthorized)
	w.Counts(t, 1, "uploads exist", `SELECT count(*) FROM upload`)
}

// suspend suspends or resumes an account.
func (w *world) suspend(t *testing.T, of tenant, suspended bool) {
	t.Helper()
	of.Spec.Suspended = suspended
	must(t, check.ErrorOf(w.Registry.Ensure(t.Context(), of.Spec)))
}

// The middleware checks the credential at the end of the body only: a chunked body with all
// bytes of the upload, but without its end, became a draft of a revoked key.
func TestPatch_MakesNoDraftWhenTheCredentialEndsAndTheBodyIsCut(t *testing.T) {
	t.Parallel()
	data := noise(1000)
	for name, end := range map[string]string{
		"by an invalid chunk":             "zz\r\n",
		"by the end of the connection":    "",
		"in the creation, invalid chunk":  "zz\r\n",
		"in the creation, closed by peer": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.tenant(t, "one")
			rt := w.replica(t)
			creation := strings.HasPrefix(name, "in the creation")
			head := "POST " + collection + " HTTP/1.1\r\nUpload-Length: 1000\r\n"
			if !creation {
				head = "PATCH " + strings.TrimPrefix(rt.created(t, one.Key, len(data)), baseURL) + " HTTP/1.1\r\nUpload-Offset: 0\r\n"
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = fmt.Fprintf(conn, "%sHost: media.test\r\nX-Service-Apikey: %s\r\nTus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n", head, one.Key)
			must(t, err)
			line, err := bufio.NewReader(conn).ReadString('\n') // the body is read: the credential was accepted
			must(t, err)
			if !strings.Contains(line, "100") {
				t.Fatalf("the answer to the headers is %q", line)
			}
			must(t, check.ErrorOf(fmt.Fprintf(conn, "200\r\n%s\r\n", data[:512])))
			w.suspend(t, one, true)
			must(t, check.ErrorOf(fmt.Fprintf(conn, "1e8\r\n%s\r\n%s", data[512:], end)))
			if end == "" {
				must(t, conn.Close())
			}
			method := `"method":"PATCH"`
			if creation {
				method = `"method":"POST"`
			}
			wait.Until(t, "the request has ended", func() bool {
				return slices.ContainsFunc(strings.Split(rt.Logs.String(), "\n"), func(line string) bool {
					return strings.Contains(line, method) && strings.Contains(line, `"error"`)
				})
			})
			if n := w.QueryInt(t, `SELECT count(*) FROM item`); n != 0 {
				t.Fatalf("there are %d drafts", n)
			}
			w.Counts(t, 1000, "bytes are kept", `SELECT received FROM resumable_upload`)
		})
	}
}
