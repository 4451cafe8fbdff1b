package oauth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/oauth"
)

func TestExchangeCode_SucceedsOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	code := w.authorizationCode(t)
	var mu sync.Mutex
	var given []oauth.Tokens
	var redeeming sync.WaitGroup
	for range 20 {
		redeeming.Go(func() {
			tokens, err := w.ExchangeCode(context.WithoutCancel(t.Context()), tokenRequest(code))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				given = append(given, tokens)
			} else if !errors.Is(err, oauth.ErrInvalidGrant) {
				t.Error(err)
			}
		})
	}
	redeeming.Wait()
	if len(given) != 1 {
		t.Fatalf("%d redemptions", len(given))
	}
	if w.isAccepted(t, given[0].Access) {
		t.Error("what a code gave that was sent again still works")
	}
	if _, err := w.Refresh(t.Context(), given[0].Refresh, client, "", ""); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("its refresh token: %v", err)
	}
}

func TestExchangeCode_MismatchRevokesTheGrant(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for name, change := range map[string]func(*oauth.TokenRequest){
		"verifier":     func(r *oauth.TokenRequest) { r.CodeVerifier += "x" },
		"client":       func(r *oauth.TokenRequest) { r.ClientID = "mcl_other" },
		"redirect URI": func(r *oauth.TokenRequest) { r.RedirectURI += "x" },
		"resource":     func(r *oauth.TokenRequest) { r.Resource = "http://other.test/mcp" },
		"late":         func(*oauth.TokenRequest) { w.clock.Advance(time.Minute) },
	} {
		sent := tokenRequest(w.authorizationCode(t))
		change(&sent)
		if _, err := w.ExchangeCode(t.Context(), sent); !errors.Is(err, oauth.ErrInvalidGrant) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.ExchangeCode(t.Context(), tokenRequest(sent.Code)); !errors.Is(err, oauth.ErrInvalidGrant) {
			t.Errorf("%s, and then right: %v", name, err)
		}
		w.clock.Advance(time.Hour) // limits of the address
	}
	for _, text := range []string{"", "x", "mac_" + strings.Repeat("a", 46), "mac_" + strings.Repeat("a", 5000)} {
		if _, err := w.ExchangeCode(t.Context(), tokenRequest(text)); !errors.Is(err, oauth.ErrInvalidGrant) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestRefresh_ReuseAfterGraceRevokesTheGrant(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	tokens := w.authorize(t)
	var mu sync.Mutex
	pairs := []oauth.Tokens{}
	var refreshing sync.WaitGroup
	for range 15 {
		refreshing.Go(func() {
			pair, err := w.Refresh(context.WithoutCancel(t.Context()), tokens.Refresh, client, "", "")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				pairs = append(pairs, pair)
			} else if !errors.Is(err, oauth.ErrInvalidGrant) {
				t.Error(err)
			}
		})
	}
	refreshing.Wait()
	if len(pairs) != 10 {
		t.Errorf("%d pairs within the grace", len(pairs))
	}
	for _, pair := range pairs {
		if !w.isAccepted(t, pair.Access) {
			t.Error("a pair of the grace does not work")
		}
	}
	w.clock.Advance(90 * time.Second)
	next, err := w.Refresh(t.Context(), pairs[0].Refresh, client, "", "")
	must(t, err)
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, "", ""); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("after the grace: %v", err)
	}
	for name, pair := range map[string]oauth.Tokens{"first": tokens, "rotated": pairs[0], "sibling": pairs[1], "newest": next} {
		if w.isAccepted(t, pair.Access) {
			t.Errorf("after token reuse the %s access token works", name)
		}
		if _, err := w.Refresh(t.Context(), pair.Refresh, client, "", ""); !errors.Is(err, oauth.ErrInvalidGrant) {
			t.Errorf("after token reuse the %s refresh token: %v", name, err)
		}
	}
}

func TestRefresh_MismatchChangesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	tokens := w.authorize(t)
	for name, refresh := range map[string]func() (oauth.Tokens, error){
		"another client": func() (oauth.Tokens, error) { return w.Refresh(t.Context(), tokens.Refresh, "mcl_other", "", "") },
		"another resource": func() (oauth.Tokens, error) {
			return w.Refresh(t.Context(), tokens.Refresh, client, "http://other.test/mcp", "")
		},
		"an access token": func() (oauth.Tokens, error) { return w.Refresh(t.Context(), tokens.Access, client, "", "") },
		"garbage":         func() (oauth.Tokens, error) { return w.Refresh(t.Context(), "mrt_x", client, "", "") },
		"as access token": func() (oauth.Tokens, error) {
			return w.Refresh(t.Context(), "mrt_"+strings.TrimPrefix(tokens.Access, "mat_"), client, "", "")
		},
	} {
		if _, err := refresh(); !errors.Is(err, oauth.ErrInvalidGrant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.clock.Advance(719 * time.Hour)
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "", "")
	must(t, err)
	w.clock.Advance(720 * time.Hour)
	if _, err := w.Refresh(t.Context(), next.Refresh, client, "", ""); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("after its time: %v", err)
	}
}

func TestRefresh_RebindsTheGrantToTheNewKey(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	tokens := w.authorize(t)
	_, key, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 24*time.Hour)
	must(t, err)
	if !w.isAccepted(t, tokens.Access) {
		t.Error("the old key still has a day")
	}
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "", "")
	must(t, err)
	hash, _ := oauth.AccessTokenHash(w.signer, next.Access)
	session, err := w.Store.Credentials.FindSession(t.Context(), hash)
	must(t, err)
	if session.Key.ID != key.ID {
		t.Error("the grant stands for the old key")
	}
	w.clock.Advance(25 * time.Hour)
	if _, err := w.Refresh(t.Context(), next.Refresh, client, "", ""); err != nil {
		t.Errorf("after the old key's end: %v", err)
	}
}

func TestRevokeToken_RevokesOwnTokensOnly(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	tokens := w.authorize(t)
	must(t, w.RevokeToken(t.Context(), "mat_"+strings.Repeat("a", 46), client))
	must(t, w.RevokeToken(t.Context(), "garbage", client))
	if err := w.RevokeToken(t.Context(), tokens.Refresh, "mcl_other"); !errors.Is(err, oauth.ErrInvalidGrant) || !w.isAccepted(t, tokens.Access) {
		t.Errorf("another application: %v", err)
	}
	must(t, w.RevokeToken(t.Context(), tokens.Access, client))
	if w.isAccepted(t, tokens.Access) {
		t.Error("a revoked token works")
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, "", ""); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("its refresh token: %v", err)
	}
}

// scopesOf returns the scopes that an access token gives.
func (w *env) scopesOf(t *testing.T, access string) string {
	t.Helper()
	hash, ok := oauth.AccessTokenHash(w.signer, access)
	if !ok {
		t.Fatal("an access token has no hash")
	}
	session, err := w.Store.Credentials.FindSession(t.Context(), hash)
	must(t, err)
	return oauth.JoinScopes(session.Scopes)
}

// A narrower scope was ignored: the application that asked for less got all.
func TestRefresh_NarrowsTheAccessTokenOnly(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	const all = "media:read media:write media:delete"
	tokens := w.authorize(t, oauth.Scopes()...)
	for _, step := range []struct{ scope, want string }{
		{"media:read", "media:read"},
		{"", all},
		{"media:delete media:read", "media:read media:delete"},
		{"media:write offline_access media:write", "media:write"},
		{" media:read  media:write ", "media:read media:write"},
		{"media:delete media:write media:read", all},
		{"  ", all},
	} {
		next, err := w.Refresh(t.Context(), tokens.Refresh, client, "", step.scope)
		must(t, err)
		if got := oauth.JoinScopes(next.Scopes); got != step.want || w.scopesOf(t, next.Access) != got {
			t.Errorf("scope %q: the answer says %q, the token has %q", step.scope, got, w.scopesOf(t, next.Access))
		}
		if got := w.scopesOf(t, tokens.Access); step.scope == "media:read" && got != all {
			t.Errorf("a token of before has %q", got)
		}
		tokens = next
	}
	apps, err := w.Store.Logins.AuthorizedApps(t.Context(), owner, w.clock.Now(), 10)
	must(t, err)
	if len(apps) != 1 || oauth.JoinScopes(apps[0].Scopes) != all {
		t.Errorf("the grant is %+v", apps)
	}
}

// A scope that was not granted changes nothing: the refresh token still works. One of another grant of the same user is not granted.
func TestRefresh_RejectsScopesThatWereNotGranted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.authorize(t, oauth.Scopes()...)
	tokens := w.authorize(t, oauth.ScopeRead)
	for _, scope := range []string{"media:write", "media:read media:delete", "offline_access", "MEDIA:READ", "media:read,media:write", strings.Repeat("x ", 5000)} {
		if _, err := w.Refresh(t.Context(), tokens.Refresh, client, "", scope); !errors.Is(err, oauth.ErrInvalidScope) {
			t.Errorf("scope %.30q: %v", scope, err)
		}
	}
	w.clock.Advance(2 * time.Minute) // longer than the grace: a rejected request is no use of the token
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "", "media:read")
	must(t, err)
	if got := w.scopesOf(t, next.Access); got != "media:read" {
		t.Errorf("the token has %q", got)
	}
}

// Parallel refreshes with several scopes get a token of their scope each. A token that is reused later, with a scope that was
// never granted too, revokes the grant with all of them.
func TestRefresh_NarrowsEachOfParallelRefreshes(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	tokens := w.authorize(t, oauth.Scopes()...)
	scopes := []string{"media:read", "media:write", "media:read media:delete", "", "media:delete"}
	pairs := make([]oauth.Tokens, 10)
	var refreshing sync.WaitGroup
	for i := range pairs {
		refreshing.Go(func() {
			var err error
			if pairs[i], err = w.Refresh(context.WithoutCancel(t.Context()), tokens.Refresh, client, "", scopes[i%len(scopes)]); err != nil {
				t.Error(err)
			}
		})
	}
	refreshing.Wait()
	for i, pair := range pairs {
		want := scopes[i%len(scopes)]
		if want == "" {
			want = oauth.JoinScopes(oauth.Scopes())
		}
		if got := w.scopesOf(t, pair.Access); got != want {
			t.Errorf("a refresh with %q got %q", want, got)
		}
		if next, err := w.Refresh(t.Context(), pair.Refresh, client, "", ""); err != nil || w.scopesOf(t, next.Access) != oauth.JoinScopes(oauth.Scopes()) {
			t.Errorf("the refresh token of %q lost scopes: %v", want, err)
		}
	}
	w.clock.Advance(2 * time.Minute)
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, "", "media:read offline_access"); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("a reused token with a narrower scope: %v", err)
	}
	for _, pair := range pairs {
		if w.isAccepted(t, pair.Access) {
			t.Error("after token reuse a narrowed access token works")
		}
	}
}
