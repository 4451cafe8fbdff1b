package oauth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestACodeIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.granted(t)
	var mu sync.Mutex
	var given []oauth.Tokens
	var redeeming sync.WaitGroup
	for range 20 {
		redeeming.Go(func() {
			tokens, err := w.Redeem(context.WithoutCancel(t.Context()), redemption(code))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				given = append(given, tokens)
			} else if !errors.Is(err, oauth.ErrRefused) {
				t.Error(err)
			}
		})
	}
	redeeming.Wait()
	if len(given) != 1 {
		t.Fatalf("%d redemptions", len(given))
	}
	if w.works(t, given[0].Access) {
		t.Error("what a code gave that was sent again still works")
	}
	if _, err := w.Refresh(t.Context(), given[0].Refresh, client, ""); !errors.Is(err, oauth.ErrRefused) {
		t.Errorf("its refresh token: %v", err)
	}
}

func TestARedemptionThatDoesNotFitEndsTheGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*oauth.Redemption){
		"verifier":     func(r *oauth.Redemption) { r.Verifier += "x" },
		"client":       func(r *oauth.Redemption) { r.ClientID = "mcl_other" },
		"redirect URI": func(r *oauth.Redemption) { r.RedirectURI += "x" },
		"resource":     func(r *oauth.Redemption) { r.Resource = "http://other.test/mcp" },
		"late":         func(*oauth.Redemption) { w.clock.Advance(time.Minute) },
	} {
		sent := redemption(w.granted(t))
		change(&sent)
		if _, err := w.Redeem(t.Context(), sent); !errors.Is(err, oauth.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.Redeem(t.Context(), redemption(sent.Code)); !errors.Is(err, oauth.ErrRefused) {
			t.Errorf("%s, and then right: %v", name, err)
		}
		w.clock.Advance(time.Hour) // limits of the address
	}
	for _, text := range []string{"", "x", "mac_" + strings.Repeat("a", 43), "mac_" + strings.Repeat("a", 5000)} {
		if _, err := w.Redeem(t.Context(), redemption(text)); !errors.Is(err, oauth.ErrRefused) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestARefreshTokenWorksAgainWithinItsGraceOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	var mu sync.Mutex
	pairs := []oauth.Tokens{}
	var refreshing sync.WaitGroup
	for range 15 {
		refreshing.Go(func() {
			pair, err := w.Refresh(context.WithoutCancel(t.Context()), tokens.Refresh, client, "")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				pairs = append(pairs, pair)
			} else if !errors.Is(err, oauth.ErrRefused) {
				t.Error(err)
			}
		})
	}
	refreshing.Wait()
	if len(pairs) != 10 {
		t.Errorf("%d pairs within the grace", len(pairs))
	}
	for _, pair := range pairs {
		if !w.works(t, pair.Access) {
			t.Error("a pair of the grace does not work")
		}
	}
	w.clock.Advance(90 * time.Second)
	next, err := w.Refresh(t.Context(), pairs[0].Refresh, client, "")
	must(t, err)
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, ""); !errors.Is(err, oauth.ErrRefused) {
		t.Errorf("after the grace: %v", err)
	}
	for name, pair := range map[string]oauth.Tokens{"first": tokens, "rotated": pairs[0], "sibling": pairs[1], "newest": next} {
		if w.works(t, pair.Access) {
			t.Errorf("after a theft the %s access token works", name)
		}
		if _, err := w.Refresh(t.Context(), pair.Refresh, client, ""); !errors.Is(err, oauth.ErrRefused) {
			t.Errorf("after a theft the %s refresh token: %v", name, err)
		}
	}
}

func TestARefreshThatDoesNotFitChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	for name, refresh := range map[string]func() (oauth.Tokens, error){
		"another client": func() (oauth.Tokens, error) { return w.Refresh(t.Context(), tokens.Refresh, "mcl_other", "") },
		"another resource": func() (oauth.Tokens, error) {
			return w.Refresh(t.Context(), tokens.Refresh, client, "http://other.test/mcp")
		},
		"an access token": func() (oauth.Tokens, error) { return w.Refresh(t.Context(), tokens.Access, client, "") },
		"garbage":         func() (oauth.Tokens, error) { return w.Refresh(t.Context(), "mrt_x", client, "") },
		"as access token": func() (oauth.Tokens, error) {
			return w.Refresh(t.Context(), "mrt_"+strings.TrimPrefix(tokens.Access, "mat_"), client, "")
		},
	} {
		if _, err := refresh(); !errors.Is(err, oauth.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.clock.Advance(719 * time.Hour)
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "")
	must(t, err)
	w.clock.Advance(720 * time.Hour)
	if _, err := w.Refresh(t.Context(), next.Refresh, client, ""); !errors.Is(err, oauth.ErrRefused) {
		t.Errorf("after its time: %v", err)
	}
}

func TestConnectionsEndWithWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, back func(*testing.T, *world) }{
		"the owner": {
			end: func(t *testing.T, w *world) {
				w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
			},
			back: func(t *testing.T, w *world) { w.ensure(t, func(*account.Spec) {}) },
		},
		"a suspension": {
			end:  func(t *testing.T, w *world) { w.ensure(t, func(s *account.Spec) { s.Suspended = true }) },
			back: func(t *testing.T, w *world) { w.ensure(t, func(*account.Spec) {}) },
		},
		"the key": {
			end: func(t *testing.T, w *world) {
				_, _, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 0)
				must(t, err)
			},
			back: func(*testing.T, *world) {},
		},
		"the account": {
			end: func(t *testing.T, w *world) {
				must(t, w.Store.CloseAccount(t.Context(), w.tenant.Account.ID, time.Now()))
			},
			back: func(*testing.T, *world) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tokens, code := w.connected(t), w.granted(t)
			b := w.begin(t, ask())
			b.enter(t, owner)
			if !w.works(t, tokens.Access) {
				t.Fatal("the connection does not work")
			}
			c.end(t, w)
			check := func(when string) {
				t.Helper()
				if w.works(t, tokens.Access) {
					t.Errorf("%s the access token works", when)
				}
				if _, err := w.Refresh(t.Context(), tokens.Refresh, client, ""); !errors.Is(err, oauth.ErrRefused) {
					t.Errorf("%s the refresh token: %v", when, err)
				}
				if _, err := w.Redeem(t.Context(), redemption(code)); !errors.Is(err, oauth.ErrRefused) {
					t.Errorf("%s the authorization code: %v", when, err)
				}
			}
			if name != "the key" {
				if _, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID); !fault.Is(err, fault.Conflict) {
					t.Errorf("consent: %v", err)
				}
			}
			check("at its end")
			c.back(t, w)
			check("when it is back")
		})
	}
}

func TestAConnectionMovesOnToTheNewKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	_, key, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 24*time.Hour)
	must(t, err)
	if !w.works(t, tokens.Access) {
		t.Error("the old key still has a day")
	}
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "")
	must(t, err)
	hash, _ := oauth.AccessTokenHash(w.signer, next.Access)
	session, err := w.Store.FindSession(t.Context(), hash)
	must(t, err)
	if session.Key.ID != key.ID {
		t.Error("the connection stands for the old key")
	}
	w.clock.Advance(25 * time.Hour)
	if _, err := w.Refresh(t.Context(), next.Refresh, client, ""); err != nil {
		t.Errorf("after the old key's end: %v", err)
	}
}

func TestNobodyConnectsAnAccountOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.account(t, "other", "bo@example.org")
	b := w.begin(t, ask())
	if _, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before the login: %v", err)
	}
	if _, err := w.Accounts(t.Context(), b.request(t)); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("accounts before the login: %v", err)
	}
	b.enter(t, owner)
	accounts, err := w.Accounts(t.Context(), b.request(t))
	must(t, err)
	if len(accounts) != 1 || accounts[0].ID != w.tenant.Account.ID {
		t.Errorf("ana may choose from %v", accounts)
	}
	for _, id := range []uuid.UUID{other.Account.ID, uuid.New(), uuid.Nil} {
		if _, err := w.Allow(t.Context(), b.request(t), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("another account: %v", err)
		}
	}
	request := b.request(t)
	if _, err := w.Allow(t.Context(), request, w.tenant.Account.ID); err != nil {
		t.Error(err)
	}
	if _, err := w.Allow(t.Context(), request, w.tenant.Account.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("consent twice: %v", err)
	}
	alone := w.begin(t, nil)
	alone.enter(t, owner)
	if _, err := w.Allow(t.Context(), alone.request(t), w.tenant.Account.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a consent that no application asked for: %v", err)
	}
}

func TestAPersonEndsTheirOwnConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{owner, "bo@example.org"} })
	mine := w.connected(t)
	b := w.begin(t, ask())
	b.enter(t, "bo@example.org")
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	theirs, err := w.Redeem(t.Context(), redemption(code))
	must(t, err)
	alone := w.begin(t, nil)
	if _, err := w.Connections(t.Context(), alone.request(t)); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before the login: %v", err)
	}
	alone.enter(t, owner)
	found, err := w.Connections(t.Context(), alone.request(t))
	must(t, err)
	if len(found) != 1 || found[0].ClientName != "Test" || found[0].AccountName != "studio" {
		t.Fatalf("connections: %+v", found)
	}
	if n, err := w.EndConnections(t.Context(), alone.request(t), uuid.New()); err != nil || n != 0 {
		t.Errorf("one that does not exist: %d %v", n, err)
	}
	if n, err := w.EndConnections(t.Context(), alone.request(t), uuid.Nil); err != nil || n != 1 {
		t.Errorf("all: %d %v", n, err)
	}
	if w.works(t, mine.Access) || !w.works(t, theirs.Access) {
		t.Error("ending one's own connections must end those and no others")
	}
}

func TestWhyAConnectionEndedIsWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	why := func(want string) {
		t.Helper()
		if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE revoked_at IS NOT NULL AND revocation_reason = $1", want); n != 1 {
			t.Errorf("%d connections ended since %q", n, want)
		}
	}
	at := w.connected(t)
	_, _, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 0)
	must(t, err)
	why("API key expired")
	_, _, err = w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 3, time.Hour)
	must(t, err)
	stays := w.connected(t) // stands for the newest key from the start
	_, _, err = w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 4, time.Hour)
	must(t, err)
	w.clock.Advance(2 * time.Hour)
	alone := w.begin(t, nil)
	alone.enter(t, owner)
	if n, err := w.EndConnections(t.Context(), alone.request(t), uuid.Nil); err != nil || n != 0 {
		t.Errorf("%d connections are ended that had ended: %v", n, err)
	}
	_, err = oauth.Purge(t.Context(), oauth.PurgeConfig{UnusedClientsTTL: 24 * time.Hour}, w.Store, w.clock.Now())
	must(t, err)
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE revocation_reason = 'API key expired'"); n != 2 || w.works(t, at.Access) || w.works(t, stays.Access) {
		t.Errorf("%d connections ended with their key", n)
	}
	w.connected(t)
	w.ensure(t, func(s *account.Spec) { s.Suspended = true })
	why("account suspended")
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{owner, "bo@example.org"} })
	w.connected(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	why("owner removed")
}

func TestAnApplicationRevokesItsOwnTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	must(t, w.Revoke(t.Context(), "mat_"+strings.Repeat("a", 43), client))
	must(t, w.Revoke(t.Context(), "garbage", client))
	if err := w.Revoke(t.Context(), tokens.Refresh, "mcl_other"); !errors.Is(err, oauth.ErrRefused) || !w.works(t, tokens.Access) {
		t.Errorf("another application: %v", err)
	}
	must(t, w.Revoke(t.Context(), tokens.Access, client))
	if w.works(t, tokens.Access) {
		t.Error("a revoked token works")
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, ""); !errors.Is(err, oauth.ErrRefused) {
		t.Errorf("its refresh token: %v", err)
	}
}
