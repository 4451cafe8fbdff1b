package webfiles_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/internal/webfiles"
)

// The script of the page uploads with a signature, which the form of a session gets and nobody else.
func TestSignature_IsForTheOwnerUnderTheToolPolicy(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	mine, theirs := w.Undoable(t, "mine", webtest.Owner), w.Undoable(t, "theirs", "bo@example.org")
	rt := w.Replica(t, webtest.Many)
	b, other := rt.Browser(t), rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	foreign := other.Login("/account/files", "bo@example.org")
	ask := func(by *webtest.Browser, from webtest.Page, of runtimetest.Tenant, change ...func(*http.Request)) webtest.Page {
		t.Helper()
		return by.Send("/account/files/signature", from, url.Values{"account": {of.Account.ID.String()}}, change...)
	}
	got := ask(b, p, mine)
	var answer struct {
		Header, Signature, Path string
		ExpiresAt               time.Time
	}
	must(t, json.Unmarshal([]byte(got.Text), &answer))
	if got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" || answer.Signature == "" || !strings.HasSuffix(answer.Header, "-signature") || answer.Path != "/media/create/resumable" {
		t.Errorf("%d %v %s", got.StatusCode, got.Header, got.Text)
	}
	if left := answer.ExpiresAt.Sub(rt.Clock.Now()); left <= 0 || left > webfiles.SignatureTTL {
		t.Errorf("uploads can begin for %s", left)
	}
	if strings.Contains(rt.Logs.String(), answer.Signature) {
		t.Error("the log contains the signature")
	}
	for what, got := range map[string]webtest.Page{
		"an account of others": ask(b, p, theirs),
		"from another site": ask(b, p, mine, func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}),
		"with another's session": ask(other, foreign, mine),
	} {
		if got.StatusCode != http.StatusForbidden || strings.Contains(got.Text, "signature\":") {
			t.Errorf("%s: %d %s", what, got.StatusCode, got.Text)
		}
	}
	ask(rt.Browser(t), p, mine).Is(t, http.StatusNotFound, "without a cookie")
	w.Change(t, mine, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	ask(b, p, mine).Is(t, http.StatusForbidden, "with a read-only login")
}
