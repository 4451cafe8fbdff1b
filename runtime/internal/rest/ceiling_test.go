package rest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/settings"
)

// The ceilings of a MediaSettings hold for every signature that is created, also for one that asks for
// nothing, and are no settings of the tenant.
func TestSignature_StaysUnderThePinnedCeilings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt, second := w.runtime(t), w.runtime(t)
	before := rt.sign(t, one.Key, "")
	seconds, bytes := 120, int64(5)
	must(t, w.Settings.Pin(t.Context(), one.Account.ID, settings.Layer{Ceilings: settings.Ceilings{MaxSignatureSeconds: &seconds, MaxSignatureBytes: &bytes}},
		settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
	created := func(k, body string) answer {
		return rt.do(t, http.MethodPost, "/media/signature/create", key(k), text(body))
	}
	wait.Until(t, "the ceiling is in force", func() bool { return created(one.Key, `{"expiresIn": 121}`).Status == http.StatusConflict })
	for body, want := range map[string]string{`{"expiresIn": 121}`: "expiresIn must be at most 120: pinned by MediaSettings team-a/site", `{"maxBytes": 6}`: "maxBytes must be at most 5: pinned by MediaSettings team-a/site"} {
		if got := created(one.Key, body).rejected(t, http.StatusConflict, "Conflict"); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	for _, body := range []string{"", `{"group": "g"}`, `{"expiresIn": 120, "maxBytes": 5}`} {
		signed := decode[api.Signature](t, created(one.Key, body))
		if left := signed.ExpiresAt.Sub(rt.Clock.Now()); left > 2*time.Minute {
			t.Errorf("%q: it is valid for %s", body, left)
		}
		second.uploadSigned(t, signed.Signature, filePart("a.txt", []byte("hello"))).item(t)
		second.uploadSigned(t, signed.Signature, filePart("a.txt", []byte("hello!"))).Is(t, http.StatusRequestEntityTooLarge, "%q: six bytes", body)
	}
	// What was created before stays as it is, and so do other accounts.
	second.uploadSigned(t, before, filePart("a.txt", []byte("hello!"))).item(t)
	if signed := decode[api.Signature](t, created(other.Key, "")); signed.ExpiresAt.Sub(rt.Clock.Now()) < 59*time.Minute {
		t.Errorf("another account's is valid until %s", signed.ExpiresAt)
	}
	if got := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)); strings.Contains(string(got.Body), "axSignature") {
		t.Errorf("the settings of the tenant are %s", got.Body)
	}
	rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"maxSignatureBytes": 9}`)).Is(t, http.StatusBadRequest, "a tenant sets a ceiling")
}
