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
	dto "github.com/prometheus/client_model/go"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/oauth"
)

var must = check.NoError

// fixture is an authenticator and a valid key. An unknown client guesses keys from the IP address
// of the key's holder. Only the test advances the clock.
type fixture struct {
	*Authenticator
	t       *testing.T
	now     time.Time
	key     string
	answers map[account.Hash]account.Principal
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, now: time.Unix(1e9, 0), answers: map[account.Hash]account.Principal{}}
	token := s.token()
	s.key, s.answers[token.Hash()] = token.Reveal(), holder(token.Hash())
	store := &scriptedStore{find: func(h account.Hash) (account.Principal, error) {
		if principal, ok := s.answers[h]; ok {
			return principal, nil
		}
		return account.Principal{}, fault.New(fault.NotFound, "no such key")
	}}
	clock := func() time.Time { return s.now }
	limits, err := ratelimit.New(ratelimit.Config{Failures: 1, FailuresBurst: 60}, ratelimit.Deps{Registry: prometheus.NewRegistry(), Now: clock, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	cfg := Config{Secret: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32))), SignatureTTL: time.Hour, KeyCacheTTL: time.Minute, Brand: "service"}
	if s.Authenticator, err = New(cfg, Deps{Store: store, Limits: limits, Now: clock, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	s.sessions.Connected()
	return s
}

func (s *fixture) token() account.KeySecret {
	s.t.Helper()
	token, err := account.NewKeySecret(0)
	must(s.t, err)
	return token
}

// shows sends a key, and gives how it fares.
func (s *fixture) tryKey(key string) fault.Kind {
	r := httptest.NewRequest("GET", "/media/get", nil)
	r = r.WithContext(httpapi.NewContext(r.Context(), &httpapi.RequestInfo{ClientIP: netip.MustParseAddr("192.0.2.1")}))
	r.Header.Set(s.KeyHeader, key)
	_, err := s.Authenticate(r)
	if err == nil {
		return none
	}
	return fault.From(err).Kind
}

// failed returns how many requests failed for a reason, as the metric has it.
func (s *fixture) failed(reason string) float64 {
	var found dto.Metric
	must(s.t, s.failures.WithLabelValues(reason).Write(&found))
	return found.GetCounter().GetValue()
}

// none is the kind of no error.
const none fault.Kind = -1

// guessKeys sends six wrong keys in each of the next seconds. Then further guesses are rejected.
func (s *fixture) guessKeys(seconds int) {
	s.t.Helper()
	for range seconds {
		s.now = s.now.Add(time.Second)
		for range 6 {
			s.tryKey(s.token().Reveal())
		}
	}
	if got := s.tryKey(s.token().Reveal()); got != fault.Busy {
		s.t.Fatalf("a wrong key is answered %v: the limit is not reached", got)
	}
}

func (s *fixture) expectAccepted(when string) {
	s.t.Helper()
	if got := s.tryKey(s.key); got != none {
		s.t.Errorf("%s the key is answered %v", when, got)
	}
}

func TestGuessedKeys_DoNotLockOutAValidKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.expectAccepted("before the guesses")
	s.guessKeys(30)
	for range 130 { // twice the TTL of the cache
		s.guessKeys(1)
		s.expectAccepted("during the guesses")
	}
	s.guessKeys(300)
	s.expectAccepted("after five minutes without a request")
	s.sessions.AccountChanged(uuid.UUID{1})
	s.expectAccepted("after a change of its account")
	s.sessions.Disconnected()
	s.expectAccepted("while notifications are disconnected")
	s.expectAccepted("still disconnected") // nothing is cached now
	s.sessions.Connected()
	s.expectAccepted("once notifications are connected")
	if known := s.sessions.lastValid.Len(); known != 1 {
		t.Errorf("%d keys are known to be valid, guesses included", known)
	}
}

// A key that was valid is looked up in spite of the limit, and the result of the look-up decides.
func TestEndedKey_IsRejectedAndNotExemptFromTheLimit(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture, account.Principal){
		"revoked": func(s *fixture, p account.Principal) { delete(s.answers, p.Key.Hash) },
		"expired": func(s *fixture, p account.Principal) {
			p.Key.ExpiresAt = &s.now
			s.answers[p.Key.Hash] = p
		},
		"closed": func(s *fixture, p account.Principal) {
			p.Account.ClosedAt = &s.now
			s.answers[p.Key.Hash] = p
		},
	} {
		s := newFixture(t)
		s.expectAccepted("before the guesses")
		s.guessKeys(30)
		for _, principal := range s.answers {
			end(s, principal)
		}
		s.sessions.AccountChanged(uuid.UUID{1})
		if got := s.tryKey(s.key); got != fault.Unauthenticated {
			t.Errorf("%s: answered %v", name, got)
		}
		s.sessions.AccountChanged(uuid.UUID{1}) // so that it is not cached as unknown
		if got := s.tryKey(s.key); got != fault.Busy {
			t.Errorf("%s, the second time: answered %v, as if the key were still exempt", name, got)
		}
		if revoked := s.failed("revoked") == 1; revoked == (name == "revoked") || s.failed("limited") == 0 || s.failed("invalid_key") == 0 {
			t.Errorf("%s: the metric has %v revoked, %v limited and %v invalid keys", name, s.failed("revoked"), s.failed("limited"), s.failed("invalid_key"))
		}
	}
}

func TestResumedAccount_IsServedWhileKeysAreGuessed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.expectAccepted("before the guesses")
	s.guessKeys(30)
	for hash, principal := range s.answers {
		principal.Account.Suspended = true
		s.answers[hash] = principal
		s.sessions.AccountChanged(uuid.UUID{1})
		if got := s.tryKey(s.key); got != fault.Unauthenticated {
			t.Errorf("suspended: answered %v", got)
		}
		principal.Account.Suspended = false
		s.answers[hash] = principal
	}
	s.sessions.AccountChanged(uuid.UUID{1})
	s.expectAccepted("when the account is resumed")
}

// A failed look-up does not show that the key is invalid.
func TestFailedLookup_KeepsTheExemptionOfAKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.expectAccepted("before the guesses")
	s.guessKeys(30)
	store, _ := s.store.(*scriptedStore)
	find := store.find
	store.find = func(account.Hash) (account.Principal, error) {
		return account.Principal{}, fault.New(fault.Unavailable, "down")
	}
	s.sessions.AccountChanged(uuid.UUID{1})
	if got := s.tryKey(s.key); got != fault.Unavailable {
		t.Errorf("while the store is unavailable: answered %v", got)
	}
	store.find = find
	s.expectAccepted("when the store is available")
}

// Thousands of hosted applications share a few IP addresses, and each sends its token once more
// after it has expired.
func TestExpiredToken_IsNotCountedAsAGuess(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.cfg.Resource = "http://media.test/mcp" // which the store's sessions are for, until an hour after the start
	tryToken := func(token string) fault.Kind {
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
		token, hash, err := oauth.NewAccessToken(0, s.tokens)
		must(t, err)
		s.answers[hash], tokens[i] = holder(hash), token
		if got := tryToken(token); got != none {
			t.Fatalf("a valid token is answered %v", got)
		}
	}
	s.now = s.now.Add(time.Hour)
	for _, token := range tokens {
		if got := tryToken(token); got != fault.Unauthenticated {
			t.Fatalf("an hour later it is answered %v", got)
		}
	}
	if got := s.failed("expired_token"); got != float64(len(tokens)) {
		t.Errorf("the metric has %v expired tokens", got)
	}
	// Forged tokens are rejected without a look-up, and do not count towards the limit.
	calls := s.store.(*scriptedStore).calls.Load()
	other := newFixture(t)
	foreign, _, err := oauth.NewAccessToken(0, signer(t, "z"))
	must(t, err)
	for _, forged := range []string{"mat_" + strings.Repeat("f", 46), "mat_" + strings.Repeat("f", 46) + "." + strings.Repeat("f", 43), foreign, tokens[0][:50] + foreign[50:], tokens[0] + "x", tokens[0][:50]} {
		for range 61 {
			if got := tryToken(forged); got != fault.Unauthenticated {
				t.Fatalf("%s is answered %v", forged, got)
			}
		}
	}
	if now := s.store.(*scriptedStore).calls.Load(); now != calls {
		t.Errorf("%d look-ups for forged tokens", now-calls)
	}
	if got := s.tryKey(other.key); got != fault.Unauthenticated { // a key that is wrong here, and the first one
		t.Errorf("the first guess of a key is answered %v", got)
	}
}

// A change before the first look at the database told tenants that an administrator had to confirm it.
func TestCheckWritable_AStartIsNoHold(t *testing.T) {
	t.Parallel()
	guard := installation.NewGuard(installation.Config{}, installation.Deps{})
	a := &Authenticator{writable: guard.Writable}
	err := a.CheckWritable(account.DeleteMedia)
	if f := fault.From(err); f.Kind != fault.Unavailable || f.Reason != fault.Starting || !strings.Contains(f.Public, "is starting") || f.RetryAfter <= 0 {
		t.Errorf("before the first check: %v", err)
	}
	a.writable = func() error {
		return fault.WithReason(fault.New(fault.Unavailable, "the database was restored"), fault.Held)
	}
	if f := fault.From(a.CheckWritable(account.DeleteMedia)); !strings.Contains(f.Public, "administrator") || strings.Contains(f.Public, "restored") {
		t.Errorf("on hold: %s", f.Public)
	}
	if err := a.CheckWritable(account.GetMedia); err != nil {
		t.Errorf("a read: %v", err)
	}
}
