package oauth_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestNothingReadableIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.begin(t, ask())
	must(t, b.send(t, owner))
	emails, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	b.cookie, err = w.TryCode(t.Context(), b.request(t), emails[0].Code)
	must(t, err)
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	tokens, err := w.Redeem(t.Context(), redemption(code))
	must(t, err)
	for name, secret := range map[string]string{"code": emails[0].Code, "cookie": b.cookie, "authorization code": code, "access token": tokens.Access, "refresh token": tokens.Refresh} {
		for _, table := range []string{"login_session", "oauth_grant", "oauth_code", "oauth_token", "email_outbox"} {
			found := w.QueryInt(t, "SELECT count(*) FROM "+table+" x WHERE x::text LIKE '%' || $1 || '%' OR x::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'", secret)
			if name == "code" && table != "email_outbox" {
				continue // eight digits stand in many a hash
			}
			if found != 0 {
				t.Errorf("the %s can be read in %s", name, table)
			}
		}
		if strings.Contains(w.logs.String(), secret) {
			t.Errorf("the %s is in the log", name)
		}
	}
	if strings.Contains(w.logs.String(), owner) || !strings.Contains(w.logs.String(), "a***@example.org") {
		t.Errorf("addresses in the log: %s", w.logs.String())
	}
}

func TestTheSameWordsAreOneApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	ids := map[string]int{}
	var registering sync.WaitGroup
	for range 10 {
		registering.Go(func() {
			for range 100 {
				made, err := w.Register(context.WithoutCancel(t.Context()), oauth.Client{Name: "Same", RedirectURIs: []string{redirect, "https://b.test/"}}, network)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[made.ID]++
				mu.Unlock()
			}
		})
	}
	registering.Wait()
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_client"); len(ids) != 1 || n != 1 {
		t.Errorf("%d ids in %d rows", len(ids), n)
	}
	for i, name := range []string{"b", "c", "d"} {
		_, err := w.Register(t.Context(), oauth.Client{Name: name, RedirectURIs: []string{redirect}}, network)
		if (err != nil) != (i == 2) || err != nil && !fault.Is(err, fault.Busy) {
			t.Errorf("the application %s: %v", name, err)
		}
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_client"); n != 3 {
		t.Errorf("%d applications", n)
	}
}

func TestThePurgeTakesWhatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := oauth.PurgeConfig{UnusedClientsTTL: 24 * time.Hour}
	unused, err := w.Register(t.Context(), oauth.Client{Name: "Unused", RedirectURIs: []string{redirect}}, network)
	must(t, err)
	used, err := w.Register(t.Context(), oauth.Client{Name: "Used", RedirectURIs: []string{redirect}}, network)
	must(t, err)
	b := w.begin(t, &oauth.Ask{ClientID: used.ID, RedirectURI: redirect, Scopes: []oauth.Scope{oauth.ScopeRead}, Challenge: ask().Challenge, Registered: true})
	b.enter(t, owner)
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	tokens, err := w.Redeem(t.Context(), oauth.Redemption{Code: code, ClientID: used.ID, RedirectURI: redirect, Verifier: verifier})
	must(t, err)
	stays := w.granted(t)
	must(t, w.begin(t, ask()).send(t, "stranger@example.org"))
	purge := func() {
		t.Helper()
		_, err := oauth.Purge(t.Context(), cfg, w.Store, w.clock.Now())
		must(t, err)
	}
	rows := func(table string) int64 { return w.QueryInt(t, "SELECT count(*) FROM "+table) }
	purge()
	if _, err := w.Redeem(t.Context(), redemption(stays)); err != nil {
		t.Errorf("the purge took a code that was valid: %v", err)
	}
	if rows("login_session") == 0 || rows("email_outbox") != 1 || rows("oauth_client") != 2 {
		t.Error("the purge took what is not over")
	}
	w.clock.Advance(25 * time.Hour)
	purge()
	if n := rows("login_session") + rows("email_outbox") + rows("rate_limit_event"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := w.FindClient(t.Context(), unused.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("an application that nobody uses: %v", err)
	}
	if _, err := w.FindClient(t.Context(), used.ID); err != nil {
		t.Errorf("an application that is connected: %v", err)
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh, used.ID, ""); err != nil {
		t.Errorf("a connection after a day: %v", err)
	}
	w.clock.Advance(1000 * time.Hour)
	purge()
	for _, table := range []string{"oauth_grant", "oauth_code", "oauth_token", "oauth_client"} {
		if n := rows(table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

func TestLettersAreClaimedOnceAndComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.begin(t, ask()).send(t, owner))
	first, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	second, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	if len(first) != 1 || len(second) != 0 || first[0].Attempts != 1 {
		t.Fatalf("claims: %d and %d", len(first), len(second))
	}
	w.clock.Advance(2 * time.Minute) // whoever claimed it died
	again, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	if len(again) != 1 || again[0].Code != first[0].Code || again[0].Attempts != 2 {
		t.Fatalf("after the lease: %v", again)
	}
	must(t, w.NackEmail(t.Context(), again[0].ID, w.clock.Now().Add(5*time.Second)))
	w.clock.Advance(6 * time.Second)
	if again, err = w.LeaseEmails(t.Context(), 10, time.Minute); err != nil || len(again) != 1 {
		t.Fatalf("after the pause: %v %v", again, err)
	}
	w.clock.Advance(10 * time.Minute)
	if again, err = w.LeaseEmails(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("a letter whose code is over: %v %v", again, err)
	}
	// A letter that another secret sealed is dropped, and stands in nobody's way.
	must(t, w.begin(t, ask()).send(t, owner))
	cfg := oauth.Config{RequestTTL: time.Minute, CodeTTL: time.Minute, CodeTries: 1, CodesOfAddress: 1, TriesOfAddress: 1, CodesOfClient: 1, GrantCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: time.Hour, Registrations: 1}
	if emails, err := w.service(t, cfg, "z").LeaseEmails(t.Context(), 10, time.Minute); err != nil || len(emails) != 0 {
		t.Errorf("another secret: %v %v", emails, err)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM email_outbox"); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}
