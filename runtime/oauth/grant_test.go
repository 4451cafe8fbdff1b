package oauth_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/purge"
)

func TestGrant_EndsWithOwnerAccountAndKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, back func(*testing.T, *env) }{
		"the owner": {
			end: func(t *testing.T, w *env) {
				w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
			},
			back: func(t *testing.T, w *env) { w.ensure(t, func(*account.Spec) {}) },
		},
		"a suspension": {
			end:  func(t *testing.T, w *env) { w.ensure(t, func(s *account.Spec) { s.Suspended = true }) },
			back: func(t *testing.T, w *env) { w.ensure(t, func(*account.Spec) {}) },
		},
		"the key": {
			end: func(t *testing.T, w *env) {
				_, _, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 0)
				must(t, err)
			},
			back: func(*testing.T, *env) {},
		},
		"the account": {
			end: func(t *testing.T, w *env) {
				must(t, check.ErrorOf(w.Store.Accounts.CloseAccount(t.Context(), w.tenant.Account.ID, account.CloseOptions{})))
			},
			back: func(*testing.T, *env) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			tokens, code := w.authorize(t), w.authorizationCode(t)
			b := w.startLogin(t, authorizationRequest())
			b.logIn(t, owner)
			if !w.isAccepted(t, tokens.Access) {
				t.Fatal("the access token is not accepted")
			}
			c.end(t, w)
			check := func(when string) {
				t.Helper()
				if w.isAccepted(t, tokens.Access) {
					t.Errorf("%s the access token works", when)
				}
				if _, err := w.Refresh(t.Context(), tokens.Refresh, client, "", ""); !errors.Is(err, oauth.ErrInvalidGrant) {
					t.Errorf("%s the refresh token: %v", when, err)
				}
				if _, err := w.ExchangeCode(t.Context(), tokenRequest(code)); !errors.Is(err, oauth.ErrInvalidGrant) {
					t.Errorf("%s the authorization code: %v", when, err)
				}
			}
			if name != "the key" {
				if _, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID); !fault.Is(err, fault.Conflict) {
					t.Errorf("consent: %v", err)
				}
			}
			check("at its end")
			c.back(t, w)
			check("when it is back")
		})
	}
}

func TestApprove_RejectsAccountsOfOthers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	other := w.account(t, "other", "bo@example.org")
	b := w.startLogin(t, authorizationRequest())
	if _, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before the login: %v", err)
	}
	if _, err := w.Accounts(t.Context(), b.session(t)); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("accounts before the login: %v", err)
	}
	b.logIn(t, owner)
	accounts, err := w.Accounts(t.Context(), b.session(t))
	must(t, err)
	if len(accounts) != 1 || accounts[0].ID != w.tenant.Account.ID {
		t.Errorf("ana may choose from %v", accounts)
	}
	for _, id := range []uuid.UUID{other.Account.ID, uuid.New(), uuid.Nil} {
		if _, err := w.Approve(t.Context(), b.session(t), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("another account: %v", err)
		}
	}
	session := b.session(t)
	if _, err := w.Approve(t.Context(), session, w.tenant.Account.ID); err != nil {
		t.Error(err)
	}
	if _, err := w.Approve(t.Context(), session, w.tenant.Account.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("consent twice: %v", err)
	}
	alone := w.startLogin(t, nil)
	alone.logIn(t, owner)
	if _, err := w.Approve(t.Context(), alone.session(t), w.tenant.Account.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a consent that no application asked for: %v", err)
	}
}

func TestGrant_StoresTheReasonOfItsRevocation(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	why := func(want string) {
		t.Helper()
		if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE revoked_at IS NOT NULL AND revocation_reason = $1", want); n != 1 {
			t.Errorf("%d grants revoked because of %q", n, want)
		}
	}
	at := w.authorize(t)
	_, _, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 0)
	must(t, err)
	why("API key expired")
	_, _, err = w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 3, time.Hour)
	must(t, err)
	stays := w.authorize(t) // stands for the newest key from the start
	_, _, err = w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 4, time.Hour)
	must(t, err)
	w.clock.Advance(2 * time.Hour)
	alone := w.startLogin(t, nil)
	alone.logIn(t, owner)
	if n, err := w.RevokeApps(t.Context(), alone.session(t), uuid.Nil); err != nil || n != 0 {
		t.Errorf("%d grants revoked that had ended: %v", n, err)
	}
	must(t, check.ErrorOf(oauth.Purge(t.Context(), purgeConfig, w.Store.Logins, purge.Batches{Size: 50}, w.clock.Now())))
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE revocation_reason = 'API key expired'"); n != 2 || w.isAccepted(t, at.Access) || w.isAccepted(t, stays.Access) {
		t.Errorf("%d grants revoked with their key", n)
	}
	w.authorize(t)
	w.ensure(t, func(s *account.Spec) { s.Suspended = true })
	why("account suspended")
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{owner, "bo@example.org"} })
	w.authorize(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	why("owner removed")
}

func TestGrant_SurvivesAnotherSpellingOfItsOwner(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	tokens := w.authorize(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org", "ANA@Example.org", "ana@EXAMPLE.ORG"} })
	if !w.isAccepted(t, tokens.Access) {
		t.Error("the grant ended though its owner is still listed")
	}
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	if w.isAccepted(t, tokens.Access) {
		t.Error("the grant is valid though its owner is listed in no spelling")
	}
}

func TestPrincipal_IsAnAppOfAnOwnedAccount(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	beside := w.AddApp(t, w.tenant, "beside")
	foreign := w.account(t, "other", "bo@example.org")
	b := w.startLogin(t, nil)
	_, err := w.Service.Principal(t.Context(), b.session(t), w.tenant.Account.ID, "")
	is(t, "before the login", err, fault.Unauthenticated)
	b.logIn(t, owner)
	session := b.session(t)
	got, err := w.Service.Principal(t.Context(), session, w.tenant.Account.ID, "")
	if err != nil || got.App.ID != w.tenant.App.ID || got.App.Name != account.DefaultApp || got.Key.ID != w.tenant.KeyID || got.Account.Bucket != w.tenant.Account.Bucket || got.App.ID == beside.App.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := w.Service.Principal(t.Context(), session, w.tenant.Account.ID, "beside"); err != nil || got.App.ID != beside.App.ID || got.Key.ID != beside.KeyID {
		t.Errorf("of another app: %+v, %v", got, err)
	}
	none := w.account(t, "none", owner)
	apps, err := w.Apps(t.Context(), session, w.tenant.Account.ID)
	if err != nil || !slices.Equal(apps, []string{"beside", account.DefaultApp}) {
		t.Errorf("the apps are %q, %v", apps, err)
	}
	_, err = w.Service.Principal(t.Context(), session, w.tenant.Account.ID, "absent")
	is(t, "a missing app", err, fault.Forbidden)
	_, err = w.Service.Principal(t.Context(), session, none.Account.ID, "beside")
	is(t, "an app of another account", err, fault.Forbidden)
	if apps, err := w.Apps(t.Context(), session, foreign.Account.ID); err != nil || len(apps) > 0 {
		t.Errorf("the apps of another owner are %q, %v", apps, err)
	}
	_, newer, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, time.Hour)
	must(t, err)
	if got, err := w.Service.Principal(t.Context(), session, w.tenant.Account.ID, ""); err != nil || got.Key.ID != newer.ID {
		t.Errorf("with a newer key: %+v, %v", got.Key, err)
	}
	app := w.startLogin(t, authorizationRequest())
	app.logIn(t, owner)
	_, err = w.Service.Principal(t.Context(), app.session(t), w.tenant.Account.ID, "")
	is(t, "with the login of an application", err, fault.Unauthenticated)
	for name, id := range map[string]uuid.UUID{"another owner's account": foreign.Account.ID, "a missing account": uuid.Must(uuid.NewV7())} {
		_, err := w.Service.Principal(t.Context(), session, id, "")
		is(t, name, err, fault.Forbidden)
	}
	w.ensure(t, func(s *account.Spec) { s.Suspended = true })
	_, err = w.Service.Principal(t.Context(), session, w.tenant.Account.ID, "")
	is(t, "a suspended account", err, fault.Forbidden)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	_, err = w.Service.Principal(t.Context(), session, w.tenant.Account.ID, "")
	is(t, "after the owner was removed", err, fault.Forbidden)
	w.ensure(t, func(*account.Spec) {})
	must(t, check.ErrorOf(w.Store.Accounts.CloseAccount(t.Context(), w.tenant.Account.ID, account.CloseOptions{})))
	_, err = w.Service.Principal(t.Context(), session, w.tenant.Account.ID, "")
	is(t, "a closed account", err, fault.Forbidden)
}
