package oauth

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/keys"
)

// AuthorizationRequest is a validated authorization request (RFC 6749, section 4.1.1). The
// login session stores it, so that later steps do not read its parameters from the browser.
type AuthorizationRequest struct {
	ClientID      string  `json:"clientId"`
	ClientName    string  `json:"clientName"`
	Website       string  `json:"website,omitempty"`
	RedirectURI   string  `json:"redirectUri"`
	State         string  `json:"state,omitempty"`
	HasState      bool    `json:"hasState,omitempty"`
	Scopes        []Scope `json:"scopes"`
	Resource      string  `json:"resource"`
	CodeChallenge string  `json:"codeChallenge"` // PKCE, method S256 (RFC 7636)
	// Verified means that the configuration trusts the target of the redirect URI.
	Verified bool `json:"verified,omitempty"`
	// Registered means that ClientID was issued by RegisterClient.
	Registered bool `json:"registered,omitempty"`
}

// LoginSession is the login of one browser.
type LoginSession struct {
	ID uuid.UUID
	// CookieHash is the hash of the session cookie.
	CookieHash account.Hash
	// AuthorizationRequest is nil if the user logs in to see the pages of the account.
	AuthorizationRequest *AuthorizationRequest
	// Email is the address to which the newest code was sent, in canonical form.
	Email         string
	CodeMAC       []byte
	CodeSentAt    *time.Time
	CodeExpiresAt *time.Time
	Attempts      int
	LoggedInAt    *time.Time
	ExpiresAt     time.Time
}

// LoggedIn reports whether the user has proven to own the e-mail address.
func (l LoginSession) LoggedIn() bool { return l.LoggedInAt != nil }

// SessionTTL returns the lifetime of a login session. It starts anew when the user has logged in.
func (s *Service) SessionTTL() time.Duration { return s.cfg.SessionTTL }

// StartLogin creates a login session and returns it with the value of its cookie. request is
// nil if no client asks for authorization.
func (s *Service) StartLogin(ctx context.Context, request *AuthorizationRequest) (LoginSession, string, error) {
	id, err := s.Store.Cell().NewID()
	if err != nil {
		return LoginSession{}, "", fmt.Errorf("create a session id: %w", err)
	}
	cookie, err := account.RandomBase62()
	if err != nil {
		return LoginSession{}, "", err
	}
	now := s.Now()
	session := LoginSession{ID: id, CookieHash: hashSecret(cookie), AuthorizationRequest: request, ExpiresAt: now.Add(s.cfg.SessionTTL)}
	return session, cookie, s.Store.AddLoginSession(ctx, session, now)
}

// FindLogin returns the login session of a browser. The error is the same for sessions that
// do not exist, have ended or expired, or have another cookie.
func (s *Service) FindLogin(ctx context.Context, id uuid.UUID, cookie string) (LoginSession, error) {
	session, err := s.Store.FindLoginSession(ctx, id, hashSecret(cookie), s.Now())
	return session, sessionExpired(err)
}

// CSRFToken returns the token of the forms of a session. A new cookie makes it invalid.
func (s *Service) CSRFToken(session LoginSession) string {
	return keys.Encode(s.mac(csrfMACInput(session)...))
}

// VerifyCSRFToken reports whether token is the CSRF token of the session.
func (s *Service) VerifyCSRFToken(session LoginSession, token string) bool {
	mac, ok := keys.Decode(token)
	return ok && s.verifyMAC(mac, csrfMACInput(session)...)
}

func csrfMACInput(session LoginSession) []string {
	return []string{"csrf", session.ID.String(), string(session.CookieHash[:])}
}

// EndLogin ends a session: the user denied the request or logs out.
func (s *Service) EndLogin(ctx context.Context, session LoginSession) error {
	return sessionExpired(s.Store.EndLoginSession(ctx, session.ID, session.CookieHash, s.Now()))
}
