package oauth_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/purge"
)

func TestPurge_DeletesExpiredDataOnly(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	cfg := purgeConfig
	unused, err := w.RegisterClient(t.Context(), oauth.Client{Name: "Unused", RedirectURIs: []string{redirect}}, network)
	must(t, err)
	used, err := w.RegisterClient(t.Context(), oauth.Client{Name: "Used", RedirectURIs: []string{redirect}}, network)
	must(t, err)
	b := w.startLogin(t, &oauth.AuthorizationRequest{ClientID: used.ID, RedirectURI: redirect, Scopes: []oauth.Scope{oauth.ScopeRead}, CodeChallenge: authorizationRequest().CodeChallenge, Registered: true})
	b.logIn(t, owner)
	code, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID)
	must(t, err)
	tokens, err := w.ExchangeCode(t.Context(), oauth.TokenRequest{Code: code, ClientID: used.ID, RedirectURI: redirect, CodeVerifier: verifier})
	must(t, err)
	stays := w.authorizationCode(t)
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, "unknown@example.org"))
	purge := func() {
		t.Helper()
		_, err := oauth.Purge(t.Context(), cfg, w.Store.Logins, purge.Batches{Size: 50}, w.clock.Now())
		must(t, err)
	}
	rows := func(table string) int64 { return w.QueryInt(t, "SELECT count(*) FROM "+table) }
	purge()
	if _, err := w.ExchangeCode(t.Context(), tokenRequest(stays)); err != nil {
		t.Errorf("the purge deleted a valid code: %v", err)
	}
	if rows("login_session") == 0 || rows("work") != 1 || rows("oauth_client") != 2 {
		t.Error("the purge deleted data that has not expired")
	}
	w.clock.Advance(25 * time.Hour)
	purge()
	if n := rows("login_session") + rows("work") + rows("rate_limit_event"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := w.FindClient(t.Context(), unused.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unused client: %v", err)
	}
	if _, err := w.FindClient(t.Context(), used.ID); err != nil {
		t.Errorf("a client with a grant: %v", err)
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh, used.ID, "", ""); err != nil {
		t.Errorf("a refresh token after a day: %v", err)
	}
	w.clock.Advance(1000 * time.Hour)
	purge()
	for _, table := range []string{"oauth_grant", "oauth_code", "oauth_token", "oauth_client"} {
		if n := rows(table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

func TestPurgeConfig_RejectsAgesOutOfBounds(t *testing.T) {
	t.Parallel()
	if err := purgeConfig.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for name, change := range map[string]func(*oauth.PurgeConfig, time.Duration){
		"SERVICE_OAUTH_CLIENT_TTL":      func(c *oauth.PurgeConfig, age time.Duration) { c.UnusedClientTTL = age },
		"SERVICE_OAUTH_TOKEN_RETENTION": func(c *oauth.PurgeConfig, age time.Duration) { c.TokenRetention = age },
		"SERVICE_OAUTH_GRANT_RETENTION": func(c *oauth.PurgeConfig, age time.Duration) { c.GrantRetention = age },
	} {
		for _, age := range []time.Duration{-time.Hour, 0, 367 * 24 * time.Hour} {
			cfg := purgeConfig
			change(&cfg, age)
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %s: %v", name, age, err)
			}
		}
	}
}

func TestCutoffs_KeepEachKindForItsAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	want := oauth.PurgeCutoffs{Now: now, RateLimitEvents: now.Add(-time.Hour), Tokens: now.Add(-24 * time.Hour),
		Grants: now.Add(-7 * 24 * time.Hour), UnusedClients: now.Add(-24 * time.Hour)}
	if got := purgeConfig.Cutoffs(now); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
