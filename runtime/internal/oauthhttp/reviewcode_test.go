package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/oauth"
)

// A fixed code is said on the pages that its owners see, and the page of the code tells nobody which address has one.
func TestReviewCode_IsSaidOnThePages(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "demo", "reviewer@example.org")
	w.OwnedTenant(t, "studio", webtest.Owner)
	code, entry, err := oauth.NewReviewCode(oauth.NamespacedName(tenant.Account), "reviewer@example.org")
	must(t, err)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Login.ReviewLogins = []string{entry} })
	b := rt.Browser(t)
	app := b.Application("App")
	const said = "A fixed code, for the reviewers of directories, opens this account as well."
	p := b.Post("/oauth/login/email", b.Get(app.Query(nil)), url.Values{"email": {"reviewer@example.org"}})
	p.Says(t, http.StatusOK, "Reviewers who have a fixed code enter its 16 digits.")
	p = b.Post("/oauth/login/code", p, url.Values{"code": {code}})
	p.Says(t, http.StatusOK, "Allow", said)
	if status, _ := b.Redeem(app, b.Allow(p, tenant).Get("code")); status != http.StatusOK {
		t.Fatalf("tokens: %d", status)
	}
	connections := b.Post("/oauth/login/email", b.Get("/account/connections"), url.Values{"email": {"reviewer@example.org"}})
	b.Post("/oauth/login/code", connections, url.Values{"code": {code}}).Says(t, http.StatusOK, "Authorized applications", said)

	other := rt.Browser(t)
	p = other.Post("/oauth/login/email", other.Get(app.Query(nil)), url.Values{"email": {webtest.Owner}})
	p.Says(t, http.StatusOK, "Reviewers who have a fixed code enter its 16 digits.")
	other.Post("/oauth/login/code", p, url.Values{"code": {code}}).Says(t, http.StatusBadRequest, "Incorrect code.")
	if p = other.Login(app.Query(nil), webtest.Owner); !strings.Contains(p.Text, "Allow") || strings.Contains(p.Text, said) {
		t.Errorf("another account says %s", p.Text)
	}
	if log := rt.Logs.String(); strings.Contains(log, code) {
		t.Error("the code is in the log")
	}
}
