package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

func TestRevocation_ReachesEveryReplicaAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	change := func(o *options) {
		o.login.CodesPerEmail, o.login.AttemptsPerEmail, o.login.CodesPerIP = 100, 100, 100
	}
	first, second := w.replica(t, change), w.replica(t, change)
	b := first.browser(t)
	app := b.application("App")
	back := func(t *testing.T) { t.Helper(); w.Change(t, tenant, func(*account.Spec) {}) }
	for name, end := range map[string]func(t *testing.T, access, refresh string){
		"the owner is taken out": func(t *testing.T, _, _ string) {
			w.Change(t, tenant, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
		},
		"the account is suspended": func(t *testing.T, _, _ string) { w.Change(t, tenant, func(s *account.Spec) { s.Suspended = true }) },
		"the key ends": func(t *testing.T, _, _ string) {
			_, _, err := w.Registry.IssueKey(t.Context(), tenant.App.ID, 2, 0)
			must(t, err)
		},
		"the application revokes it": func(t *testing.T, access, _ string) {
			if status, _ := b.form("/oauth/revoke", url.Values{"token": {access}, "client_id": {app.id}}); status != http.StatusOK {
				t.Errorf("revoke: %d", status)
			}
		},
		"the user revokes it": func(t *testing.T, _, _ string) {
			p := b.login("/account/connections", owner)
			if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "App") {
				t.Fatalf("the authorized applications: %d %s", p.StatusCode, p.body)
			}
			if p = b.post("/account/connections/revoke", p, url.Values{"all": {"1"}}); p.StatusCode != http.StatusOK || !strings.Contains(p.body, "Access revoked.") {
				t.Errorf("end all: %d %s", p.StatusCode, p.body)
			}
		},
	} {
		access, refresh := b.connect(app, owner, tenant)
		other := second.browser(t)
		for _, at := range []*browser{b, other} { // now both remember the token
			if status, _ := at.whoami(access); status != http.StatusOK {
				t.Fatalf("%s: before: %d", name, status)
			}
		}
		end(t, access, refresh)
		for _, at := range []*browser{b, other} {
			wait.Until(t, name, func() bool { status, _ := at.whoami(access); return status == http.StatusUnauthorized })
			if status, _ := at.refresh(app, refresh); status != http.StatusBadRequest {
				t.Errorf("%s: refresh: %d", name, status)
			}
		}
		back(t)
		if status, _ := other.whoami(access); status != http.StatusUnauthorized {
			t.Errorf("%s: the token is back", name)
		}
	}
}

func TestAuthorizedApps_ShowsAndRevokesOwnGrantsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.tenant(t, "mine", owner), w.tenant(t, "theirs", "bo@example.org")
	rt := w.replica(t)
	b, other := rt.browser(t), rt.browser(t)
	app := b.application("App")
	access, _ := b.connect(app, owner, mine)
	foreign, _ := other.connect(app, "bo@example.org", theirs)
	id := func(of runtimetest.Tenant) string {
		t.Helper()
		return w.text(t, "SELECT id::text FROM oauth_grant WHERE account_id = $1", of.Account.ID)
	}
	p := b.login("/account/connections", owner)
	if strings.Count(p.body, "App") == 0 || strings.Contains(p.body, "The theirs") {
		t.Errorf("the page shows %s", p.body)
	}
	b.post("/account/connections/revoke", p, url.Values{"grant": {id(theirs)}})
	if status, _ := b.whoami(foreign); status != http.StatusOK {
		t.Error("another user's grant was revoked")
	}
	for _, fields := range []url.Values{{}, {"grant": {"x"}}, {"grant": {"00000000-0000-0000-0000-000000000000"}}, {"all": {"0"}}} {
		b.post("/account/connections/revoke", p, fields).is(t, http.StatusBadRequest, "%v", fields)
	}
	if status, _ := b.whoami(access); status != http.StatusOK {
		t.Error("an invalid form revoked a grant")
	}
	if again := b.get("/account/connections"); again.StatusCode != http.StatusOK || !strings.Contains(again.body, "The mine") {
		t.Errorf("the page once more: %d %s", again.StatusCode, again.body)
	}
	if again := other.get("/account/connections"); !strings.Contains(again.body, `name="email"`) {
		t.Errorf("the page in another browser: %d %s", again.StatusCode, again.body)
	}
	b.post("/account/connections/revoke", p, url.Values{"grant": {id(mine)}})
	wait.Until(t, "the grant is revoked", func() bool { status, _ := b.whoami(access); return status == http.StatusUnauthorized })
	out := b.post("/account/connections/logout", p, nil)
	if out.StatusCode != http.StatusOK || !strings.Contains(out.body, "logged out") {
		t.Errorf("log out: %d %s", out.StatusCode, out.body)
	}
	b.post("/account/connections/revoke", p, url.Values{"all": {"1"}}).is(t, http.StatusNotFound, "after logging out")
	// A login with an authorization request cannot list or revoke applications.
	consent := b.login(app.query(nil), owner)
	b.post("/account/connections/revoke", consent, url.Values{"all": {"1"}}).is(t, http.StatusBadRequest, "with an application's login")
}
