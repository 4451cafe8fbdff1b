package oauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/keys"
)

// Ask is what an application asks for. It was checked when the request began, and is
// kept with it: nothing of it is taken from the browser again.
type Ask struct {
	ClientID    string  `json:"clientId"`
	ClientName  string  `json:"clientName"`
	Website     string  `json:"website,omitempty"`
	RedirectURI string  `json:"redirectUri"`
	State       string  `json:"state,omitempty"`
	HasState    bool    `json:"hasState,omitempty"`
	Scopes      []Scope `json:"scopes"`
	Resource    string  `json:"resource"`
	Challenge   string  `json:"challenge"` // of PKCE, S256 (RFC 7636)
	// Verified says that the service's operator vouches for where the answer goes.
	Verified bool `json:"verified,omitempty"`
	// Registered says that ClientID is one of AddClient's.
	Registered bool `json:"registered,omitempty"`
}

// Request is a browser on its way through the pages.
type Request struct {
	ID uuid.UUID
	// Browser is the hash of the cookie of the browser that began.
	Browser account.Hash
	// Ask is nil when the person came alone, to see the connections.
	Ask *Ask
	// Address is the one that the newest code was made for, in lower case.
	Address     string
	CodeMAC     []byte
	CodeSentAt  *time.Time
	CodeExpires *time.Time
	Tries       int
	LoggedInAt  *time.Time
	ExpiresAt   time.Time
}

// LoggedIn reports whether the address is proven.
func (r Request) LoggedIn() bool { return r.LoggedInAt != nil }

// Lifetime is how long a login lasts, and then the look at the connections.
func (s *Service) Lifetime() time.Duration { return s.cfg.RequestTTL }

// Begin notes a request and gives the cookie of its browser.
func (s *Service) Begin(ctx context.Context, ask *Ask) (Request, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Request{}, "", fmt.Errorf("make a request id: %w", err)
	}
	cookie, err := newSecret("")
	if err != nil {
		return Request{}, "", err
	}
	now := s.Now()
	request := Request{ID: id, Browser: hashOf(cookie), Ask: ask, ExpiresAt: now.Add(s.cfg.RequestTTL)}
	return request, cookie, s.Store.AddRequest(ctx, request, now)
}

// Find returns the running request of a browser. NotFound when it has ended or expired,
// or belongs to another browser: the three are never told apart.
func (s *Service) Find(ctx context.Context, id uuid.UUID, cookie string) (Request, error) {
	request, err := s.Store.FindRequest(ctx, id, hashOf(cookie), s.Now())
	return request, gone(err)
}

func gone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.NotFound, "this login has ended or took too long")
	}
	return err
}

// FormToken ties a form to the request and the browser that it was shown to.
func (s *Service) FormToken(request Request) string {
	return keys.Encode(s.mac("form", request.ID.String(), string(request.Browser[:])))
}

// IsFormToken reports whether a form was shown by us, for this request and browser.
func (s *Service) IsFormToken(request Request, token string) bool {
	mac, ok := keys.Decode(token)
	return ok && s.Signer.Verify(join([]string{"form", request.ID.String(), string(request.Browser[:])}), mac)
}

// End ends a request: a person said no, or logs out.
func (s *Service) End(ctx context.Context, request Request) error {
	return gone(s.Store.EndRequest(ctx, request.ID, request.Browser, s.Now()))
}

func hashOf(secret string) account.Hash { return sha256.Sum256([]byte(secret)) }
