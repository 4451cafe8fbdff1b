package auth

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// held sends a request of which only the headers have come, lets something happen, and
// has the credential checked again: it gives what that says, and the challenge.
func (s *storm) held(header, value string, meanwhile func()) (grant Grant, kind fault.Kind, challenge string) {
	s.t.Helper()
	let := false
	router := chi.NewRouter()
	router.With(s.Require).Post(UploadRoute, func(w http.ResponseWriter, r *http.Request) {
		let = true
		meanwhile()
		again, err := s.Again(w, r)
		if challenge, kind = w.Header().Get("WWW-Authenticate"), none; err != nil {
			kind = fault.From(err).Kind
			return
		}
		grant = Of(again.Context())
	})
	r := httptest.NewRequest(http.MethodPost, UploadRoute, nil)
	r = r.WithContext(httpapi.With(r.Context(), &httpapi.Record{Address: netip.MustParseAddr("192.0.2.1")}))
	r.Header.Set(header, value)
	if router.ServeHTTP(httptest.NewRecorder(), r); !let {
		s.t.Fatal("the request was not let in")
	}
	return grant, kind, challenge
}

// change is a change of the account of all keys, which the directory tells of.
func (s *storm) change(apply func(*account.Principal)) {
	s.apply(apply)
	s.keys.changed(uuid.UUID{1})
}

// apply is a change whose notification has not arrived.
func (s *storm) apply(change func(*account.Principal)) {
	for hash, principal := range s.answers {
		change(&principal)
		s.answers[hash] = principal
	}
}

func TestACredentialThatEndsWhileItsBodyComesIsRefused(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*storm){
		"revoked":   func(s *storm) { clear(s.answers); s.keys.changed(uuid.UUID{1}) },
		"expired":   func(s *storm) { s.change(func(p *account.Principal) { p.Key.ExpiresAt = &s.now }) },
		"closed":    func(s *storm) { s.change(func(p *account.Principal) { p.Account.ClosedAt = &s.now }) },
		"suspended": func(s *storm) { s.change(func(p *account.Principal) { p.Account.Suspended = true }) },
	} {
		s := newStorm(t)
		if _, kind, challenge := s.held(s.KeyHeader, s.key, func() { end(s) }); kind != fault.Unauthenticated || challenge == "" {
			t.Errorf("%s: the key is answered %v, %q", name, kind, challenge)
		}
		s = newStorm(t)
		made := holder(account.Hash{})
		s.answers[account.Hash{}] = made // which is how this directory finds a key by its id
		if _, kind, challenge := s.held(s.SignatureHeader, s.Sign(Grant{Principal: made}, "g"), func() { end(s) }); kind != fault.InvalidSignature || challenge != "" {
			t.Errorf("%s: the signature is answered %v, %q", name, kind, challenge)
		}
	}
}

// A body that ended between the commit of a change and its notification was judged by the
// cache, and became a draft of a suspended account.
func TestAgain_SeesAChangeBeforeItsNotification(t *testing.T) {
	t.Parallel()
	for name, credential := range map[string]func(s *storm) (header, value string, want fault.Kind){
		"key": func(s *storm) (string, string, fault.Kind) { return s.KeyHeader, s.key, fault.Unauthenticated },
		"signature": func(s *storm) (string, string, fault.Kind) {
			made := holder(account.Hash{})
			s.answers[account.Hash{}] = made
			return s.SignatureHeader, s.Sign(Grant{Principal: made}, ""), fault.InvalidSignature
		},
	} {
		s := newStorm(t)
		header, value, want := credential(s)
		if _, kind, _ := s.held(header, value, func() { s.apply(func(p *account.Principal) { p.Account.Suspended = true }) }); kind != want {
			t.Errorf("%s: it is answered %v", name, kind)
		}
	}
}

func TestWhatACredentialPermitsIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	asked := s.directory.(*scripted)
	grant, kind, _ := s.held(s.KeyHeader, s.key, func() {})
	if kind != none || grant.Account.Agents.ReadOnly || grant.Key.ID == uuid.Nil || asked.calls.Load() != 2 {
		t.Errorf("unchanged: %v, %+v after %d look-ups", kind, grant, asked.calls.Load())
	}
	grant, kind, _ = s.held(s.KeyHeader, s.key, func() { s.change(func(p *account.Principal) { p.Account.Agents.ReadOnly = true }) })
	if kind != none || !grant.Account.Agents.ReadOnly {
		t.Errorf("on a leash: %v, %+v", kind, grant)
	}
}

// An upload that began while the signature was good may last longer than that.
func TestASignaturesTimeCountsFromTheBeginning(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	made := holder(account.Hash{})
	s.answers[account.Hash{}] = made
	signature := s.Sign(Grant{Principal: made}, "g")
	grant, kind, _ := s.held(s.SignatureHeader, signature, func() { s.now = s.now.Add(2 * time.Hour) })
	if kind != none || !grant.Signed || grant.Group != "g" {
		t.Errorf("it is answered %v, %+v", kind, grant)
	}
	r := httptest.NewRequest(http.MethodPost, UploadRoute, nil)
	r.Header.Set(s.SignatureHeader, signature)
	if _, err := s.byEither(r.Context(), r.Header); !fault.Is(err, fault.InvalidSignature) {
		t.Errorf("a new request is answered %v", err)
	}
}

// Clients whose key ended while they sent something guess nothing.
func TestTheSecondLookIsNoGuess(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	before := s.answers
	for range 100 {
		_, kind, _ := s.held(s.KeyHeader, s.key, func() {
			s.answers = map[account.Hash]account.Principal{}
			s.keys.changed(uuid.UUID{1})
		})
		if kind != fault.Unauthenticated {
			t.Fatalf("it is answered %v", kind)
		}
		s.answers = before
		s.keys.changed(uuid.UUID{1})
	}
	if got := s.shows(s.token().Reveal()); got != fault.Unauthenticated {
		t.Errorf("the address is answered %v", got)
	}
}
