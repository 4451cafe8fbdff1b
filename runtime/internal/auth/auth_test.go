package auth

import (
	"encoding/base64"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/limit"
	"mediastack.dev/runtime/oauth"
)

// storm is an authenticator, a key that is in use, and a stranger who guesses keys from
// the same address. The clock stands still until the test moves it.
type storm struct {
	*Authenticator
	t       *testing.T
	now     time.Time
	key     string
	answers map[account.Hash]account.Principal
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{t: t, now: time.Unix(1e9, 0), answers: map[account.Hash]account.Principal{}}
	token := s.token()
	s.key, s.answers[token.Hash()] = token.Reveal(), holder(token.Hash())
	store := &scripted{find: func(h account.Hash) (account.Principal, error) {
		if principal, ok := s.answers[h]; ok {
			return principal, nil
		}
		return account.Principal{}, fault.New(fault.NotFound, "no such key")
	}}
	clock := func() time.Time { return s.now }
	limits, err := limit.New(limit.Config{Failures: 1, FailuresBurst: 60}, limit.Deps{Registry: prometheus.NewRegistry(), Now: clock, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Secret: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32))), SignatureTTL: time.Hour, KeyCacheTTL: time.Minute, Brand: "service"}
	if s.Authenticator, err = New(cfg, Deps{Store: store, Limits: limits, Now: clock, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	s.sessions.Connected()
	return s
}

func (s *storm) token() account.KeySecret {
	s.t.Helper()
	token, err := account.NewKeySecret()
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// shows sends a key, and gives how it fares.
func (s *storm) shows(key string) fault.Kind {
	r := httptest.NewRequest("GET", "/media/get", nil)
	r = r.WithContext(httpapi.NewContext(r.Context(), &httpapi.RequestInfo{ClientIP: netip.MustParseAddr("192.0.2.1")}))
	r.Header.Set(s.KeyHeader, key)
	_, err := s.Authenticate(r)
	if err == nil {
		return none
	}
	return fault.From(err).Kind
}

// none is the kind of no fault.
const none fault.Kind = -1

// rages lets seconds of the storm pass. It does not wait for the key.
func (s *storm) rages(seconds int) {
	s.t.Helper()
	for range seconds {
		s.now = s.now.Add(time.Second)
		for range 6 {
			s.shows(s.token().Reveal())
		}
	}
	if got := s.shows(s.token().Reveal()); got != fault.Busy {
		s.t.Fatalf("a wrong key is answered %v: there is no storm", got)
	}
}

func (s *storm) goesOn(when string) {
	s.t.Helper()
	if got := s.shows(s.key); got != none {
		s.t.Errorf("%s the key is answered %v", when, got)
	}
}

func TestGuessedKeys_DoNotLockOutAValidKey(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	s.goesOn("before the storm")
	s.rages(30)
	for range 130 { // twice the time that an answer is remembered
		s.rages(1)
		s.goesOn("in the storm")
	}
	s.rages(300)
	s.goesOn("after five minutes without a request")
	s.sessions.AccountChanged(uuid.UUID{1})
	s.goesOn("after a change of its account")
	s.sessions.Disconnected()
	s.goesOn("while changes are not heard")
	s.goesOn("still not") // nothing is remembered now
	s.sessions.Connected()
	s.goesOn("once they are heard again")
	if known := s.sessions.lastValid.Len(); known != 1 {
		t.Errorf("the stranger's keys are among the %d good ones", known)
	}
}

// What was good permits a look-up, and the look-up decides.
func TestEndedKey_IsRejectedAndNotExemptFromTheLimit(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*storm, account.Principal){
		"revoked": func(s *storm, p account.Principal) { delete(s.answers, p.Key.Hash) },
		"expired": func(s *storm, p account.Principal) {
			p.Key.ExpiresAt = &s.now
			s.answers[p.Key.Hash] = p
		},
		"closed": func(s *storm, p account.Principal) {
			p.Account.ClosedAt = &s.now
			s.answers[p.Key.Hash] = p
		},
	} {
		s := newStorm(t)
		s.goesOn("before the storm")
		s.rages(30)
		for _, principal := range s.answers {
			end(s, principal)
		}
		s.sessions.AccountChanged(uuid.UUID{1})
		if got := s.shows(s.key); got != fault.Unauthenticated {
			t.Errorf("%s: answered %v", name, got)
		}
		s.sessions.AccountChanged(uuid.UUID{1}) // nothing else may hold it
		if got := s.shows(s.key); got != fault.Busy {
			t.Errorf("%s, the second time: answered %v, as if the key were still known", name, got)
		}
	}
}

func TestResumedAccount_IsServedWhileKeysAreGuessed(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	s.goesOn("before the storm")
	s.rages(30)
	for hash, principal := range s.answers {
		principal.Account.Suspended = true
		s.answers[hash] = principal
		s.sessions.AccountChanged(uuid.UUID{1})
		if got := s.shows(s.key); got != fault.Unauthenticated {
			t.Errorf("suspended: answered %v", got)
		}
		principal.Account.Suspended = false
		s.answers[hash] = principal
	}
	s.sessions.AccountChanged(uuid.UUID{1})
	s.goesOn("when the account goes on")
}

// A look-up that fails says nothing about the key.
func TestFailedLookup_KeepsTheExemptionOfAKey(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	s.goesOn("before the storm")
	s.rages(30)
	store, _ := s.store.(*scripted)
	find := store.find
	store.find = func(account.Hash) (account.Principal, error) {
		return account.Principal{}, fault.New(fault.Unavailable, "down")
	}
	s.sessions.AccountChanged(uuid.UUID{1})
	if got := s.shows(s.key); got != fault.Unavailable {
		t.Errorf("while the directory is away: answered %v", got)
	}
	store.find = find
	s.goesOn("when the directory is back")
}

// Tokens that were good are no guesses: thousands of hosted applications share a few
// addresses, and each sends its token once more when the hour is over.
func TestExpiredToken_IsNotCountedAsAGuess(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	s.cfg.Resource = "http://media.test/mcp" // which the directory's sessions are for, until an hour after the start
	shows := func(token string) fault.Kind {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r = r.WithContext(httpapi.NewContext(r.Context(), &httpapi.RequestInfo{ClientIP: netip.MustParseAddr("192.0.2.1")}))
		r.Header.Set("Authorization", "Bearer "+token)
		identity, err := s.Authenticate(r)
		if err != nil {
			return fault.From(err).Kind
		}
		if !identity.HasScope(ScopeRead) || identity.HasScope(ScopeWrite) || identity.GrantID == uuid.Nil {
			t.Errorf("the identity is %+v", identity)
		}
		return none
	}
	tokens := make([]string, 200)
	for i := range tokens {
		token, hash, err := oauth.NewAccessToken(s.tokens)
		if err != nil {
			t.Fatal(err)
		}
		s.answers[hash], tokens[i] = holder(hash), token
		if got := shows(token); got != none {
			t.Fatalf("a good token is answered %v", got)
		}
	}
	s.now = s.now.Add(time.Hour)
	for _, token := range tokens {
		if got := shows(token); got != fault.Unauthenticated {
			t.Fatalf("an hour later it is answered %v", got)
		}
	}
	// Made-up ones are rejected without a look-up, and shut nobody out.
	calls := s.store.(*scripted).calls.Load()
	other := newStorm(t)
	foreign, _, err := oauth.NewAccessToken(signer(t, "z"))
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"mat_" + strings.Repeat("f", 43), "mat_" + strings.Repeat("f", 43) + "." + strings.Repeat("f", 43), foreign, tokens[0][:47] + foreign[47:], tokens[0] + "x", tokens[0][:47]} {
		for range 61 {
			if got := shows(made); got != fault.Unauthenticated {
				t.Fatalf("%s is answered %v", made, got)
			}
		}
	}
	if now := s.store.(*scripted).calls.Load(); now != calls {
		t.Errorf("%d look-ups for made-up tokens", now-calls)
	}
	if got := s.shows(other.key); got != fault.Unauthenticated { // a key that is wrong here, and the first one
		t.Errorf("the first guess of a key is answered %v", got)
	}
}
