package oauthhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestRevocation_ReachesEveryReplicaAtOnce(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	change := func(o *webtest.Options) {
		o.Login.CodesPerEmail, o.Login.AttemptsPerEmail, o.Login.CodesPerIP = 100, 100, 100
	}
	first, second := w.Replica(t, change), w.Replica(t, change)
	b := first.Browser(t)
	app := b.Application("App")
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
			if status, _ := b.Form("/oauth/revoke", url.Values{"token": {access}, "client_id": {app.ID}}); status != http.StatusOK {
				t.Errorf("revoke: %d", status)
			}
		},
		"the user revokes it": func(t *testing.T, _, _ string) {
			p := b.Login("/account/connections", webtest.Owner)
			if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, "App") {
				t.Fatalf("the authorized applications: %d %s", p.StatusCode, p.Text)
			}
			if p = b.Post("/account/connections/revoke", p, url.Values{"all": {"1"}}); p.StatusCode != http.StatusOK || !strings.Contains(p.Text, "Access revoked.") {
				t.Errorf("end all: %d %s", p.StatusCode, p.Text)
			}
		},
	} {
		access, refresh := b.Connect(app, webtest.Owner, tenant)
		other := second.Browser(t)
		for _, at := range []*webtest.Browser{b, other} { // now both remember the token
			if status, _ := at.Whoami(access); status != http.StatusOK {
				t.Fatalf("%s: before: %d", name, status)
			}
		}
		end(t, access, refresh)
		for _, at := range []*webtest.Browser{b, other} {
			wait.Until(t, name, func() bool { status, _ := at.Whoami(access); return status == http.StatusUnauthorized })
			if status, _ := at.Refresh(app, refresh); status != http.StatusBadRequest {
				t.Errorf("%s: refresh: %d", name, status)
			}
		}
		back(t)
		if status, _ := other.Whoami(access); status != http.StatusUnauthorized {
			t.Errorf("%s: the token is back", name)
		}
	}
}

func TestAuthorizedApps_ShowsAndRevokesOwnGrantsOnly(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	mine, theirs := w.OwnedTenant(t, "mine", webtest.Owner), w.OwnedTenant(t, "theirs", "bo@example.org")
	rt := w.Replica(t)
	b, other := rt.Browser(t), rt.Browser(t)
	app := b.Application("App")
	access, _ := b.Connect(app, webtest.Owner, mine)
	foreign, _ := other.Connect(app, "bo@example.org", theirs)
	id := func(of runtimetest.Tenant) string {
		t.Helper()
		return w.Text(t, "SELECT id::text FROM oauth_grant WHERE account_id = $1", of.Account.ID)
	}
	p := b.Login("/account/connections", webtest.Owner)
	if strings.Count(p.Text, "App") == 0 || strings.Contains(p.Text, "The theirs") {
		t.Errorf("the page shows %s", p.Text)
	}
	b.Post("/account/connections/revoke", p, url.Values{"grant": {id(theirs)}})
	if status, _ := b.Whoami(foreign); status != http.StatusOK {
		t.Error("another user's grant was revoked")
	}
	for _, fields := range []url.Values{{}, {"grant": {"x"}}, {"grant": {"00000000-0000-0000-0000-000000000000"}}, {"all": {"0"}}} {
		b.Post("/account/connections/revoke", p, fields).Is(t, http.StatusBadRequest, "%v", fields)
	}
	if status, _ := b.Whoami(access); status != http.StatusOK {
		t.Error("an invalid form revoked a grant")
	}
	if again := b.Get("/account/connections"); again.StatusCode != http.StatusOK || !strings.Contains(again.Text, "The mine") {
		t.Errorf("the page once more: %d %s", again.StatusCode, again.Text)
	}
	if again := other.Get("/account/connections"); !strings.Contains(again.Text, `name="email"`) {
		t.Errorf("the page in another browser: %d %s", again.StatusCode, again.Text)
	}
	b.Post("/account/connections/revoke", p, url.Values{"grant": {id(mine)}})
	wait.Until(t, "the grant is revoked", func() bool { status, _ := b.Whoami(access); return status == http.StatusUnauthorized })
	out := b.Post("/account/connections/logout", p, nil)
	if out.StatusCode != http.StatusOK || !strings.Contains(out.Text, "logged out") {
		t.Errorf("log out: %d %s", out.StatusCode, out.Text)
	}
	b.Post("/account/connections/revoke", p, url.Values{"all": {"1"}}).Is(t, http.StatusNotFound, "after logging out")
	// A login with an authorization request cannot list or revoke applications.
	consent := b.Login(app.Query(nil), webtest.Owner)
	b.Post("/account/connections/revoke", consent, url.Values{"all": {"1"}}).Is(t, http.StatusBadRequest, "with an application's login")
}

// The page says what an application may do under the tool policy, how often it came, and where it is.
func TestAuthorizedApps_SaysUseAndLimits(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "mine", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	b.Connect(b.Application("App"), webtest.Owner, tenant)
	p := b.Login("/account/connections", webtest.Owner)
	p.Says(t, http.StatusOK, "an application on this computer", "Requests", "never")
	grant := uuid.MustParse(w.Text(t, "SELECT id::text FROM oauth_grant"))
	used := rt.Clock.Now()
	for n, requests := range []int64{40, 2} {
		must(t, w.Store.Credentials.TouchGrants(t.Context(), map[uuid.UUID]account.Use{grant: {At: used.Add(-time.Duration(n) * time.Hour), Requests: requests}, uuid.New(): {At: used, Requests: 1}}))
	}
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{ReadOnly: true} })
	p = b.Get("/account/connections?request=" + p.Fields().Get("request"))
	p.Says(t, http.StatusOK, "The administrator of this account permits no changes: only to look.", used.UTC().Format("2 Jan 2006, 15:04 UTC"))
	if !strings.Contains(p.Text, "<dt>Requests</dt> <dd>42</dd>") {
		t.Errorf("the requests are not counted: %s", p.Text)
	}
}

// A consent for an account under a tool policy says what of it is left.
func TestConsent_SaysTheToolPolicyOfTheAccount(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "mine", webtest.Owner)
	b := w.Replica(t, webtest.Many).Browser(t)
	app := b.Application("App")
	if p := b.Login(app.Query(nil), webtest.Owner); strings.Contains(p.Text, "The administrator") {
		t.Errorf("without a policy: %s", p.Text)
	}
	w.Change(t, tenant, func(s *account.Spec) {
		s.ToolPolicy = account.ToolPolicy{Tools: []string{"list_media", "seal_media", "delete_media"}}
	})
	b.Login(app.Query(nil), webtest.Owner).Says(t, http.StatusOK, "The administrator of this account permits only to keep drafts and list files.")
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{ReadOnly: true} })
	b.Login(app.Query(nil), webtest.Owner).Says(t, http.StatusOK, "permits no changes: only to look.", "The administrator does not permit this now.")
}

// The page says what an application, and all of the account, have used of the ceilings, and when the count begins anew. What another
// application has used, and what was used in a window that has ended, is not among it.
func TestAuthorizedApps_SaysCeilings(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "mine", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	b.Connect(b.Application("App"), webtest.Owner, tenant)
	p := b.Login("/account/connections", webtest.Owner)
	if strings.Contains(p.Text, "in an hour") || strings.Contains(p.Text, "in a day") {
		t.Errorf("without ceilings the page shows %s", p.Text)
	}
	w.Change(t, tenant, func(s *account.Spec) {
		s.ToolPolicy.Ceilings = account.Ceilings{Each: account.Ceiling{UploadBytesPerDay: 10 << 20, DeletesPerHour: 5}, Total: account.Ceiling{DeletesPerHour: 20, FetchesPerDay: 7}}
	})
	id := uuid.MustParse(w.Text(t, "SELECT id::text FROM oauth_grant"))
	for _, use := range []struct {
		connection, kind, ago string
		used                  int
	}{
		{account.ConnectionOfGrant(id), string(account.CeilingDeletes), "20 minutes", 3},
		{account.ConnectionOfGrant(id), string(account.CeilingUploadBytes), "25 hours", 999}, // it has ended
		{account.ConnectionOfGrant(uuid.New()), string(account.CeilingDeletes), "1 minute", 4},
		{"", string(account.CeilingDeletes), "20 minutes", 9},
	} {
		w.Exec(t, fmt.Sprintf(`INSERT INTO connection_use (account_id, connection, kind, window_start, used) VALUES ('%s', '%s', '%s', now() - interval '%s', %d)`,
			tenant.Account.ID, use.connection, use.kind, use.ago, use.used))
	}
	ends := w.Text(t, `SELECT to_char((window_start + interval '1 hour') AT TIME ZONE 'UTC', 'FMDD FMMonth YYYY, HH24:MI') || ' UTC' FROM connection_use WHERE used = 3`)
	p = b.Get("/account/connections?request=" + p.Fields().Get("request"))
	for _, fact := range []string{
		"<dt>Deletes in an hour</dt> <dd>3 of 5, until " + ends + "</dd>", "<dt>Deletes in an hour, by all applications</dt> <dd>9 of 20, until ",
		"<dt>Uploads in a day</dt> <dd>0 bytes of 10 MiB</dd>", "<dt>Downloads from the web in a day, by all applications</dt> <dd>0 of 7</dd>",
	} {
		if !strings.Contains(p.Text, fact) {
			t.Errorf("the page lacks %s: %s", fact, p.Text)
		}
	}
}
