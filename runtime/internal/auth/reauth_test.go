package auth

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/oauth"
)

// send sends a request whose body ends after meanwhile, and returns the caller that the
// handler sees then, the kind of the fault that ended the body, and the challenge.
func (s *fixture) send(header, value string, meanwhile func()) (identity Identity, kind fault.Kind, challenge string) {
	s.t.Helper()
	handled := false
	router := chi.NewRouter()
	router.With(s.Middleware(ChallengeAll)).Post(api.UploadRoute, func(w http.ResponseWriter, r *http.Request) {
		handled = true
		text, err := io.ReadAll(r.Body)
		if string(text) != "body" {
			s.t.Errorf("read %q", text)
		}
		if challenge, kind = w.Header().Get("WWW-Authenticate"), none; err != nil {
			kind = fault.From(err).Kind
			if _, repeated := r.Body.Read(make([]byte, 1)); !errors.Is(repeated, err) {
				s.t.Errorf("the next read returns %v", repeated)
			}
			return
		}
		identity = FromContext(r.Context())
	})
	r := httptest.NewRequest(http.MethodPost, api.UploadRoute, io.MultiReader(strings.NewReader("body"), &lastRead{meanwhile}))
	r = r.WithContext(httpapi.NewContext(r.Context(), &httpapi.RequestInfo{ClientIP: netip.MustParseAddr("192.0.2.1")}))
	r.Header.Set(header, value)
	if router.ServeHTTP(httptest.NewRecorder(), r); !handled {
		s.t.Fatal("the request was rejected")
	}
	return identity, kind, challenge
}

// lastRead is the end of a body. It calls meanwhile first.
type lastRead struct{ meanwhile func() }

// Read implements io.Reader.
func (l *lastRead) Read([]byte) (int, error) {
	l.meanwhile()
	return 0, io.EOF
}

// change changes the account of all keys, and notifies the cache.
func (s *fixture) change(apply func(*account.Principal)) {
	s.apply(apply)
	s.sessions.AccountChanged(uuid.UUID{1})
}

// apply changes the account of all keys. The notification has not arrived.
func (s *fixture) apply(change func(*account.Principal)) {
	for hash, principal := range s.answers {
		change(&principal)
		s.answers[hash] = principal
	}
}

func TestMiddleware_RejectsACredentialThatEndsBeforeItsBody(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture){
		"revoked":   func(s *fixture) { clear(s.answers); s.sessions.AccountChanged(uuid.UUID{1}) },
		"expired":   func(s *fixture) { s.change(func(p *account.Principal) { p.Key.ExpiresAt = &s.now }) },
		"closed":    func(s *fixture) { s.change(func(p *account.Principal) { p.Account.ClosedAt = &s.now }) },
		"suspended": func(s *fixture) { s.change(func(p *account.Principal) { p.Account.Suspended = true }) },
	} {
		s := newFixture(t)
		if _, kind, challenge := s.send(s.KeyHeader, s.key, func() { end(s) }); kind != fault.Unauthenticated || challenge == "" {
			t.Errorf("%s: the key is answered %v, %q", name, kind, challenge)
		}
		s = newFixture(t)
		made := holder(account.Hash{})
		s.answers[account.Hash{}] = made // scriptedStore finds every key id by the zero hash
		if _, kind, challenge := s.send(s.SignatureHeader, s.Sign(Identity{Principal: made}, "g"), func() { end(s) }); kind != fault.InvalidSignature || challenge != "" {
			t.Errorf("%s: the signature is answered %v, %q", name, kind, challenge)
		}
	}
}

// A body may end between the commit of a change and its notification. The check at its end must
// not use the cache, or a suspended account would get a draft.
func TestMiddleware_SeesAChangeBeforeItsNotification(t *testing.T) {
	t.Parallel()
	for name, credential := range map[string]func(s *fixture) (header, value string, want fault.Kind){
		"key": func(s *fixture) (string, string, fault.Kind) { return s.KeyHeader, s.key, fault.Unauthenticated },
		"signature": func(s *fixture) (string, string, fault.Kind) {
			made := holder(account.Hash{})
			s.answers[account.Hash{}] = made
			return s.SignatureHeader, s.Sign(Identity{Principal: made}, ""), fault.InvalidSignature
		},
	} {
		s := newFixture(t)
		header, value, want := credential(s)
		if _, kind, _ := s.send(header, value, func() { s.apply(func(p *account.Principal) { p.Account.Suspended = true }) }); kind != want {
			t.Errorf("%s: it is answered %v", name, kind)
		}
	}
}

func TestMiddleware_UpdatesTheCallerAtTheEndOfTheBody(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	store := s.store.(*scriptedStore)
	identity, kind, _ := s.send(s.KeyHeader, s.key, func() {})
	if kind != none || identity.Account.ToolPolicy.ReadOnly || identity.Key.ID == uuid.Nil || store.calls.Load() != 2 {
		t.Errorf("unchanged: %v, %+v after %d look-ups", kind, identity, store.calls.Load())
	}
	identity, kind, _ = s.send(s.KeyHeader, s.key, func() { s.change(func(p *account.Principal) { p.Account.ToolPolicy.ReadOnly = true }) })
	if kind != none || !identity.Account.ToolPolicy.ReadOnly {
		t.Errorf("read-only: %v, %+v", kind, identity)
	}
}

// An upload that began while the signature was good may last longer than that.
func TestMiddleware_AcceptsASignatureThatExpiresBeforeTheBodyEnds(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := holder(account.Hash{})
	s.answers[account.Hash{}] = made
	signature := s.Sign(Identity{Principal: made}, "g")
	identity, kind, _ := s.send(s.SignatureHeader, signature, func() { s.now = s.now.Add(2 * time.Hour) })
	if kind != none || !identity.Signed || identity.Group != "g" {
		t.Errorf("it is answered %v, %+v", kind, identity)
	}
	r := httptest.NewRequest(http.MethodPost, api.UploadRoute, nil)
	r.Header.Set(s.SignatureHeader, signature)
	if _, err := s.authenticateUpload(r.Context(), r.Header, false); !fault.Is(err, fault.InvalidSignature) {
		t.Errorf("a new request is answered %v", err)
	}
}

// The client of a key that ends during its request has not guessed.
func TestMiddleware_DoesNotCountASecondCheckThatFails(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	before := s.answers
	for range 100 {
		_, kind, _ := s.send(s.KeyHeader, s.key, func() {
			s.answers = map[account.Hash]account.Principal{}
			s.sessions.AccountChanged(uuid.UUID{1})
		})
		if kind != fault.Unauthenticated {
			t.Fatalf("it is answered %v", kind)
		}
		s.answers = before
		s.sessions.AccountChanged(uuid.UUID{1})
	}
	if got := s.tryKey(s.token().Reveal()); got != fault.Unauthenticated {
		t.Errorf("the client is answered %v", got)
	}
}

// A handler that waits for something else than the body calls Reauthenticate.
func TestReauthenticate_RejectsACredentialThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var err error
	router := chi.NewRouter()
	router.With(s.Middleware(ChallengeAll)).Delete(api.ResumableRoute, func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			t.Errorf("the empty body is %T", r.Body)
		}
		s.apply(func(p *account.Principal) { p.Account.Suspended = true })
		err = s.Reauthenticate(w, r)
	})
	r := httptest.NewRequest(http.MethodDelete, api.ResumableRoute, http.NoBody)
	r.Header.Set(s.KeyHeader, s.key)
	w := httptest.NewRecorder()
	if router.ServeHTTP(w, r); !fault.Is(err, fault.Unauthenticated) || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%v, %v", err, w.Header())
	}
}

// A change of the tool policy applies to the operation of a request that is in progress.
func TestMiddleware_RejectsAnOperationThatIsNoLongerAllowed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.cfg.Resource = "http://media.test/mcp"
	token, hash, err := oauth.NewAccessToken(0, s.tokens)
	must(t, err)
	s.answers[hash] = holder(hash)
	var read error
	router := chi.NewRouter()
	router.With(s.Middleware(ChallengeAll), s.RequireOperation(func(*http.Request) account.Operation { return account.GetMedia })).
		Post("/media/get/x", func(_ http.ResponseWriter, r *http.Request) { _, read = io.ReadAll(r.Body) })
	r := httptest.NewRequest(http.MethodPost, "/media/get/x", &lastRead{func() {
		s.apply(func(p *account.Principal) { p.Account.ToolPolicy.Tools = []string{} })
	}})
	r.Header.Set("Authorization", "Bearer "+token)
	if router.ServeHTTP(httptest.NewRecorder(), r); !fault.Is(read, fault.Forbidden) {
		t.Errorf("the body ends with %v", read)
	}
}
