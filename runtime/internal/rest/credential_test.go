package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
)

// sign creates an upload signature.
func (rt *runtime) sign(t *testing.T, k, body string) string {
	t.Helper()
	return decode[api.Signature](t, rt.do(t, http.MethodPost, "/media/signature/create", key(k), text(body))).Signature
}

func (rt *runtime) uploadSigned(t *testing.T, s string, parts ...part) answer {
	t.Helper()
	return rt.do(t, http.MethodPost, "/media/create", signature(s), form(parts...))
}

func TestSignature_UploadsIntoItsAppAndGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt, second := w.runtime(t), w.runtime(t)
	file := filePart("a.txt", []byte("hello"))

	item := rt.uploadSigned(t, rt.sign(t, one.Key, ""), file, field("group", "mine")).item(t)
	if item.Group != "mine" || !item.Temp {
		t.Errorf("unbound: %+v", item)
	}
	// Another replica accepts it, and the group of the signature overrides that of the form.
	bound := rt.sign(t, one.Key, `{"group": "friends"}`)
	item = second.uploadSigned(t, bound, field("group", "mine"), file).item(t)
	if item.Group != "friends" {
		t.Errorf("bound: %+v", item)
	}
	got := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).item(t)
	if got.MediaId != item.MediaId {
		t.Error("the key does not reach what its signature uploaded")
	}
}

func TestSignature_InvalidIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	file := filePart("a.txt", []byte("hello"))
	rejected := func(t *testing.T, s string) {
		t.Helper()
		rt.uploadSigned(t, s, file).rejected(t, http.StatusForbidden, "Invalid signature")
	}
	t.Run("garbage and changes", func(t *testing.T) {
		t.Parallel()
		good := rt.sign(t, w.tenant(t, "garbage").Key, `{"group": "g"}`)
		claims, code, _ := strings.Cut(good, ".")
		other := "B"
		if claims[10:11] == other {
			other = "C"
		}
		once := rt.sign(t, w.tenant(t, "once").Key, `{"count": 1, "types": ["text/*"]}`)
		pdf := rt.uploadSigned(t, once, filePart("a.txt", []byte("%PDF-1.4")))
		pdf.rejected(t, http.StatusUnsupportedMediaType, "Bad Request")
		rt.uploadSigned(t, once, file).item(t)
		rejected(t, once) // it is used up
		for _, s := range []string{"x", ".", "x.y", claims, claims + ".", "." + code, good + "A", "A" + good, claims + "." + claims,
			good[:len(good)-1], strings.Repeat("A", 5000), claims[:10] + other + claims[11:] + "." + code, "é" + good} {
			rejected(t, s)
		}
		rt.uploadSigned(t, good, file).item(t)
	})
	t.Run("made with another secret", func(t *testing.T) {
		t.Parallel()
		foreign := w.runtime(t, func(o *options) { o.Auth.Secret = secretOf("z") })
		rejected(t, foreign.sign(t, w.tenant(t, "foreign").Key, ""))
	})
	t.Run("of a rotated key", func(t *testing.T) {
		t.Parallel()
		rotated := w.tenant(t, "rotated")
		s, permits := rt.sign(t, rotated.Key, ""), rt.sign(t, rotated.Key, `{"count": 9}`)
		rt.uploadSigned(t, s, file).item(t)
		rt.uploadSigned(t, permits, file).item(t)
		_, _, err := w.Registry.IssueKey(t.Context(), rotated.App.ID, 2, 0)
		must(t, err)
		wait.Until(t, "the signature of a revoked key is void", func() bool {
			return rt.uploadSigned(t, s, file).Status == http.StatusForbidden
		})
		rejected(t, permits)
	})
	t.Run("of a suspended account", func(t *testing.T) {
		t.Parallel()
		suspended := w.tenant(t, "suspended")
		s := rt.sign(t, suspended.Key, "")
		suspended.Spec.Suspended = true
		must(t, check.ErrorOf(w.Registry.Ensure(t.Context(), suspended.Spec)))
		wait.Until(t, "the signature of a suspended account is void", func() bool {
			return rt.uploadSigned(t, s, file).Status == http.StatusForbidden
		})
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		late := w.runtime(t)
		s := late.sign(t, w.tenant(t, "expired").Key, "")
		late.Clock.Advance(time.Hour - 5*time.Minute)
		late.uploadSigned(t, s, file).item(t)
		late.Clock.Advance(6 * time.Minute)
		late.uploadSigned(t, s, file).rejected(t, http.StatusForbidden, "Invalid signature")
	})
}

func TestSecret_PreviousIsAcceptedAndNotSignedWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	file := filePart("a.txt", []byte("hello"))
	before := w.runtime(t)
	during := w.runtime(t, func(o *options) { o.Auth.SecretPrevious, o.Auth.Secret = o.Auth.Secret, secretOf("b") })
	after := w.runtime(t, func(o *options) { o.Auth.Secret = secretOf("b") })

	old, permits := before.sign(t, one.Key, ""), before.sign(t, one.Key, `{"count": 9}`)
	during.uploadSigned(t, permits, file).item(t)
	after.uploadSigned(t, permits, file).rejected(t, http.StatusForbidden, "Invalid signature")
	after.uploadSigned(t, during.sign(t, one.Key, `{"count": 9}`), file).item(t)
	item := before.upload(t, one.Key, file)
	during.uploadSigned(t, old, file).item(t)
	after.uploadSigned(t, old, file).rejected(t, http.StatusForbidden, "Invalid signature")
	during.do(t, http.MethodGet, item.File).Is(t, http.StatusOK, "a URL signed with the previous secret")
	after.do(t, http.MethodGet, item.File).rejected(t, http.StatusForbidden, "Invalid signature")
	after.uploadSigned(t, during.sign(t, one.Key, ""), file).item(t)
	before.uploadSigned(t, during.sign(t, one.Key, ""), file).rejected(t, http.StatusForbidden, "Invalid signature")
}

func TestKey_RevokedStopsOnEveryRuntimeWithinASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	runtimes := []*runtime{w.runtime(t), w.runtime(t)}
	for _, rt := range runtimes {
		rt.expect(t, one, 0, 0)
		rt.expect(t, other, 0, 0)
	}
	token, _, err := w.Registry.IssueKey(t.Context(), one.App.ID, 2, 0)
	must(t, err)
	for _, rt := range runtimes {
		wait.Until(t, "the old key is rejected", func() bool {
			return rt.do(t, http.MethodGet, "/media/get", key(one.Key)).Status == http.StatusUnauthorized
		})
		rt.do(t, http.MethodGet, "/media/get", key(token.Reveal())).Is(t, http.StatusOK, "the new key")
		rt.expect(t, other, 0, 0)
	}
}

func TestKey_RevokedWhileTheListenerIsDisconnectedStops(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	rt.expect(t, one, 0, 0)
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	listeners := func(what string) (count int) {
		must(t, conn.QueryRow(t.Context(), "SELECT count("+what+") FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()").Scan(&count))
		return count
	}
	wait.Until(t, "the runtime listens", func() bool { return listeners("*") == 1 })
	if listeners("pg_terminate_backend(pid)::text") != 1 {
		t.Fatal("the listener's connection was not cut")
	}
	_, _, err = w.Registry.IssueKey(t.Context(), one.App.ID, 2, 0)
	must(t, err)
	wait.Until(t, "the old key is rejected", func() bool {
		return rt.do(t, http.MethodGet, "/media/get", key(one.Key)).Status == http.StatusUnauthorized
	})
	wait.Until(t, "the runtime has reconnected", func() bool { return listeners("*") == 1 })
}

func TestAccount_SuspendedIsRejectedUntilItIsResumed(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	one.Spec.Suspended = true
	_, err := w.Registry.Ensure(t.Context(), one.Spec)
	must(t, err)
	wait.Until(t, "the suspended account is rejected", func() bool {
		got := rt.do(t, http.MethodGet, "/media/get", key(one.Key))
		return got.Status == http.StatusUnauthorized && strings.Contains(string(got.Body), "suspended")
	})
	one.Spec.Suspended = false
	must(t, check.ErrorOf(w.Registry.Ensure(t.Context(), one.Spec)))
	wait.Until(t, "the account is served again", func() bool {
		return rt.do(t, http.MethodGet, "/media/get", key(one.Key)).Status == http.StatusOK
	})
}

func TestKey_RotatedEndsWithItsOverlap(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	_, _, err := w.Registry.IssueKey(t.Context(), one.App.ID, 2, time.Hour)
	must(t, err)
	rt.expect(t, one, 0, 0)
	rt.Clock.Advance(time.Hour - 5*time.Minute)
	rt.expect(t, one, 0, 0)
	rt.Clock.Advance(6 * time.Minute)
	rt.do(t, http.MethodGet, "/media/get", key(one.Key)).rejected(t, http.StatusUnauthorized, "Unauthorized")
}

func TestBrand_IsInHeaderNamesAndInTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Server.Brand = "acme" })
	rt.do(t, http.MethodGet, "/media/get", header("x-acme-apikey", one.Key)).Is(t, http.StatusOK, "the answer")
	rt.do(t, http.MethodGet, "/media/get", key(one.Key)).rejected(t, http.StatusUnauthorized, "Unauthorized")
	description := string(rt.do(t, http.MethodGet, "/openapi.json").Body)
	for _, want := range []string{`"x-acme-apikey"`, `"x-acme-signature"`, `"servers":[{"url":"http://media.test"}]`} {
		if !strings.Contains(description, want) {
			t.Errorf("the document lacks %s", want)
		}
	}
	for _, unwanted := range []string{"x-service-", "x-order", "x-go-"} {
		if strings.Contains(description, unwanted) {
			t.Errorf("the document contains %s", unwanted)
		}
	}
}
