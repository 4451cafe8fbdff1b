package rest_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// endings end a credential.
var endings = map[string]func(*testing.T, *world, tenant){
	"revoked": func(t *testing.T, w *world, of tenant) {
		t.Helper()
		_, _, err := w.Registry.IssueKey(t.Context(), of.App.ID, 2, 0)
		must(t, err)
	},
	"suspended": func(t *testing.T, w *world, of tenant) {
		t.Helper()
		of.Spec.Suspended = true
		_, err := w.Registry.Ensure(t.Context(), of.Spec)
		must(t, err)
	},
}

// hold sends a request whose body ends after its credential.
func (rt *runtime) hold(t *testing.T, body *runtimetest.PausedBody, of tenant, end func(), method, path string, change ...option) answer {
	t.Helper()
	var got answer
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, err = rt.try(t.Context(), method, path, append(change, func(r *request) { r.Body = body; runtimetest.Expect(r.Header) })...)
	}()
	body.Wait(t)
	end()
	wait.Until(t, "the key is rejected", func() bool {
		return rt.do(t, http.MethodGet, "/media/get/count", key(of.Key)).Status == http.StatusUnauthorized
	})
	body.Release()
	<-done
	must(t, err)
	return got
}

// An upload becomes no draft if its credential ends while its body arrives.
func TestUpload_WhoseCredentialEndsBeforeItsBodyIsNoDraft(t *testing.T) {
	t.Parallel()
	for how, end := range endings {
		for _, size := range []int{1000, upload.MaxSinglePut + 2<<20} { // in memory only, and partly in S3
			w := newWorld(t)
			rt := w.runtime(t)
			for credential, status := range map[string]int{"key": http.StatusUnauthorized, "signature": http.StatusForbidden} {
				one := w.tenant(t, how+"-"+credential)
				with := key(one.Key)
				if credential == "signature" {
					with = signature(rt.sign(t, one.Key, ""))
				}
				body, kind := encode(filePart("a.bin", randomBytes(1, size)))
				held := runtimetest.NewPausedBody(bytes.NewReader(body[:len(body)-10]), bytes.NewReader(body[len(body)-10:]))
				got := rt.hold(t, held, one, func() { end(t, w, one) }, http.MethodPost, "/media/create", with, header("Content-Type", kind))
				if got.Status != status || (got.Header.Get("WWW-Authenticate") != "") != (status == http.StatusUnauthorized) {
					t.Errorf("%s, %s, %d bytes: %d %v %s", how, credential, size, got.Status, got.Header, got.Body)
				}
				must(t, w.Objects.List(t.Context(), one.Account.Bucket, "media/", func(o media.ObjectInfo) error {
					t.Errorf("%s, %s, %d bytes: left in the bucket: %s", how, credential, size, o.Key)
					return nil
				}))
			}
			wait.Until(t, "nothing is left", func() bool {
				return w.QueryInt(t, `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM item) + (SELECT coalesce(sum(bytes), 0) FROM account_usage)`) == 0
			})
		}
	}
}

func TestBody_WhoseCredentialEndsBeforeItChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	for how, end := range endings {
		for path, call := range map[string]struct{ method, body string }{
			"/settings/media/create":  {http.MethodPost, `{"useWebP":true}`},
			"/media/signature/create": {http.MethodPost, `{"group":"g"}`},
			"/media/get":              {http.MethodPost, `{"page":1}`},
		} {
			one := w.tenant(t, how+strings.ReplaceAll(path, "/", "-"))
			held := runtimetest.NewPausedBody(strings.NewReader(call.body[:5]), strings.NewReader(call.body[5:]))
			got := rt.hold(t, held, one, func() { end(t, w, one) }, call.method, path, key(one.Key))
			if got.Status != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s, %s: %d %s", how, path, got.Status, got.Body)
			}
			layers, err := w.Settings.Get(t.Context(), one.Account.ID)
			must(t, err)
			if layers.Effective().UseWebP {
				t.Errorf("%s, %s: the settings changed", how, path)
			}
		}
	}
}

// An upload that starts before its signature expires may end after it.
func TestSignature_MayExpireDuringAnUpload(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	s := rt.sign(t, one.Key, "")
	body, kind := encode(filePart("a.bin", []byte("hello")))
	held := runtimetest.NewPausedBody(bytes.NewReader(body[:20]), bytes.NewReader(body[20:]))
	done := make(chan answer, 1)
	go func() {
		got, _ := rt.try(t.Context(), http.MethodPost, "/media/create", signature(s), header("Content-Type", kind), func(r *request) { r.Body = held; runtimetest.Expect(r.Header) })
		done <- got
	}()
	held.Wait(t)
	rt.Clock.Advance(2 * time.Hour)
	rt.uploadSigned(t, s, filePart("b.bin", []byte("b"))).Is(t, http.StatusForbidden, "a new upload")
	held.Release()
	if item := decode[api.MediaItem](t, <-done); item.Size != 5 {
		t.Errorf("the item is %+v", item)
	}
}

// An account whose rows are erased while a body arrives is unknown, whether or not the replica has stored a file of it before.
func TestUpload_OfAnErasedAccountIsUnauthenticated(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"its first file": false, "another file": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, one, rt := withTenant(t)
			if stored {
				rt.sealed(t, one.Key, filePart("a.bin", randomBytes(1, 100)))
			}
			body, kind := encode(filePart("b.bin", randomBytes(2, 1000)))
			held := runtimetest.NewPausedBody(bytes.NewReader(body[:len(body)-10]), bytes.NewReader(body[len(body)-10:]))
			erase := func() {
				_, err := testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), `DELETE FROM account WHERE id = $1`, one.Account.ID)
				must(t, err)
			}
			got := rt.hold(t, held, one, erase, http.MethodPost, "/media/create", key(one.Key), header("Content-Type", kind))
			if got.Status != http.StatusUnauthorized {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
}
