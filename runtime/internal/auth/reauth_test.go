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
func (s *storm) send(header, value string, meanwhile func()) (identity Identity, kind fault.Kind, challenge string) {
	s.t.Helper()
	let := false
	router := chi.NewRouter()
	router.With(s.Middleware(ChallengeAll)).Post(api.UploadRoute, func(w http.ResponseWriter, r *http.Request) {
		let = true
		text, err := io.ReadAll(r.Body)
		if string(text) != "body" {
			s.t.Errorf("read %q", text)
		}
		if challenge, kind = w.Header().Get("WWW-Authenticate"), none; err != nil {
			kind = fault.From(err).Kind
			if _, again := r.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
				s.t.Errorf("the next read returns %v", again)
			}
			return
		}
		identity = FromContext(r.Context())
	})
	r := httptest.NewRequest(http.MethodPost, api.UploadRoute, io.MultiReader(strings.NewReader("body"), &lastRead{meanwhile}))
	r = r.WithContext(httpapi.NewContext(r.Context(), &httpapi.RequestInfo{ClientIP: netip.MustParseAddr("192.0.2.1")}))
	r.Header.Set(header, value)
	if router.ServeHTTP(httptest.NewRecorder(), r); !let {
		s.t.Fatal("the request was rejected")
	}
	return identity, kind, challenge
}

// lastRead is the end of a body, which comes after something else.
type lastRead struct{ meanwhile func() }

// Read implements io.Reader.
func (l *lastRead) Read([]byte) (int, error) {
	l.meanwhile()
	return 0, io.EOF
}

// change is a change of the account of all keys, which the directory tells of.
func (s *storm) change(apply func(*account.Principal)) {
	s.apply(apply)
	s.sessions.AccountChanged(uuid.UUID{1})
}

// apply is a change whose notification has not arrived.
func (s *storm) apply(change func(*account.Principal)) {
	for hash, principal := range s.answers {
		change(&principal)
		s.answers[hash] = principal
	}
}

func TestMiddleware_RejectsACredentialThatEndsBeforeItsBody(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*storm){
		"revoked":   func(s *storm) { clear(s.answers); s.sessions.AccountChanged(uuid.UUID{1}) },
		"expired":   func(s *storm) { s.change(func(p *account.Principal) { p.Key.ExpiresAt = &s.now }) },
		"closed":    func(s *storm) { s.change(func(p *account.Principal) { p.Account.ClosedAt = &s.now }) },
		"suspended": func(s *storm) { s.change(func(p *account.Principal) { p.Account.Suspended = true }) },
	} {
		s := newStorm(t)
		if _, kind, challenge := s.send(s.KeyHeader, s.key, func() { end(s) }); kind != fault.Unauthenticated || challenge == "" {
			t.Errorf("%s: the key is answered %v, %q", name, kind, challenge)
		}
		s = newStorm(t)
		made := holder(account.Hash{})
		s.answers[account.Hash{}] = made // which is how this directory finds a key by its id
		if _, kind, challenge := s.send(s.SignatureHeader, s.Sign(Identity{Principal: made}, "g"), func() { end(s) }); kind != fault.InvalidSignature || challenge != "" {
			t.Errorf("%s: the signature is answered %v, %q", name, kind, challenge)
		}
	}
}

// A body that ended between the commit of a change and its notification was judged by the
// cache, and became a draft of a suspended account.
func TestMiddleware_SeesAChangeBeforeItsNotification(t *testing.T) {
	t.Parallel()
	for name, credential := range map[string]func(s *storm) (header, value string, want fault.Kind){
		"key": func(s *storm) (string, string, fault.Kind) { return s.KeyHeader, s.key, fault.Unauthenticated },
		"signature": func(s *storm) (string, string, fault.Kind) {
			made := holder(account.Hash{})
			s.answers[account.Hash{}] = made
			return s.SignatureHeader, s.Sign(Identity{Principal: made}, ""), fault.InvalidSignature
		},
	} {
		s := newStorm(t)
		header, value, want := credential(s)
		if _, kind, _ := s.send(header, value, func() { s.apply(func(p *account.Principal) { p.Account.Suspended = true }) }); kind != want {
			t.Errorf("%s: it is answered %v", name, kind)
		}
	}
}

func TestMiddleware_UpdatesTheCallerAtTheEndOfTheBody(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	store := s.store.(*scripted)
	identity, kind, _ := s.send(s.KeyHeader, s.key, func() {})
	if kind != none || identity.Account.ToolPolicy.ReadOnly || identity.Key.ID == uuid.Nil || store.calls.Load() != 2 {
		t.Errorf("unchanged: %v, %+v after %d look-ups", kind, identity, store.calls.Load())
	}
	identity, kind, _ = s.send(s.KeyHeader, s.key, func() { s.change(func(p *account.Principal) { p.Account.ToolPolicy.ReadOnly = true }) })
	if kind != none || !identity.Account.ToolPolicy.ReadOnly {
		t.Errorf("on a leash: %v, %+v", kind, identity)
	}
}

// An upload that began while the signature was good may last longer than that.
func TestMiddleware_AcceptsASignatureThatExpiresBeforeTheBodyEnds(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	made := holder(account.Hash{})
	s.answers[account.Hash{}] = made
	signature := s.Sign(Identity{Principal: made}, "g")
	identity, kind, _ := s.send(s.SignatureHeader, signature, func() { s.now = s.now.Add(2 * time.Hour) })
	if kind != none || !identity.Signed || identity.Group != "g" {
		t.Errorf("it is answered %v, %+v", kind, identity)
	}
	r := httptest.NewRequest(http.MethodPost, api.UploadRoute, nil)
	r.Header.Set(s.SignatureHeader, signature)
	if _, err := s.authenticateUpload(r.Context(), r.Header); !fault.Is(err, fault.InvalidSignature) {
		t.Errorf("a new request is answered %v", err)
	}
}

// Clients whose key ended while they sent something guess nothing.
func TestMiddleware_DoesNotCountASecondCheckThatFails(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
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
	if got := s.shows(s.token().Reveal()); got != fault.Unauthenticated {
		t.Errorf("the address is answered %v", got)
	}
}

// Handlers that wait for something else than the body ask for the check themselves.
func TestReauthenticate_RejectsACredentialThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
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
	s := newStorm(t)
	s.cfg.Resource = "http://media.test/mcp"
	token, hash, err := oauth.NewAccessToken(s.tokens)
	if err != nil {
		t.Fatal(err)
	}
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
