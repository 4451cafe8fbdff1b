package oauth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
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

// SessionTTL returns the lifetime of a login session. It starts anew when the user has logged in, and with
// ExtendLogin.
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

// extensions is how many times at most a session is extended in its lifetime, so that a page which loads
// does not write each time.
const extensions = 15

// ExtendLogin extends the session of a user who uses the pages of the account, up to Config.MaxTTL after the
// login, and reports whether it did. validAt is when the session was found: it may have expired since then,
// during a long upload. A session that has ended, or that belongs to an authorization request, is not
// extended. A failure is not one of the request, which the session still permits.
func (s *Service) ExtendLogin(ctx context.Context, session LoginSession, validAt time.Time) (LoginSession, bool) {
	if !session.LoggedIn() || session.AuthorizationRequest != nil {
		return session, false
	}
	until := session.LoggedInAt.Add(s.cfg.MaxTTL)
	if inUse := s.Now().Add(s.cfg.SessionTTL); inUse.Before(until) {
		until = inUse
	}
	if gained := until.Sub(session.ExpiresAt); gained <= 0 || gained < s.cfg.SessionTTL/extensions && until.Before(session.LoggedInAt.Add(s.cfg.MaxTTL)) {
		return session, false
	}
	err := s.Store.ExtendLoginSession(ctx, session.ID, session.CookieHash, validAt, until)
	switch {
	case fault.Is(err, fault.NotFound): // it has ended, or another request has extended it
		return session, false
	case err != nil:
		s.Log.WarnContext(ctx, "login not extended", "login", session.ID.String(), "error", err)
		return session, false
	}
	session.ExpiresAt = until
	return session, true
}

// recentLogin is how old a login may be for what cannot be undone. A cookie that was stolen, or a browser
// that was left alone, is of less use for it than for the rest.
const recentLogin = time.Hour

// IsRecentLogin reports whether the user logged in a short time ago: within an hour, or the lifetime of a
// session that nobody uses if that is longer.
func (s *Service) IsRecentLogin(session LoginSession) bool {
	return session.LoggedIn() && s.Now().Before(session.LoggedInAt.Add(max(recentLogin, s.cfg.SessionTTL)))
}

// CanContinue reports whether a code that was sent in the login pending can be entered in place of one for
// newer, which asks for the same: the same address, and the same application with the same rights, or none.
// The caller has the cookies of both, so it is one browser. After the pause newer gets a code of its own: who
// begins again later may not have received the first one.
func (s *Service) CanContinue(pending, newer LoginSession, email string) bool {
	return pending.ID != newer.ID && pending.Email == email && !pending.LoggedIn() && !newer.LoggedIn() &&
		pending.CodeMAC != nil && pending.CodeExpiresAt != nil && s.Now().Before(*pending.CodeExpiresAt) && pending.Attempts < s.cfg.MaxAttempts && s.ResendIn(pending) > 0 &&
		pending.AuthorizationRequest.asksAs(newer.AuthorizationRequest)
}

// asksAs reports whether two requests ask for the same for the same application. What differs is of one
// try: state and code challenge.
func (r *AuthorizationRequest) asksAs(other *AuthorizationRequest) bool {
	if r == nil || other == nil {
		return r == nil && other == nil
	}
	return r.ClientID == other.ClientID && r.RedirectURI == other.RedirectURI && r.Resource == other.Resource && slices.Equal(r.Scopes, other.Scopes)
}

// ContinueLogin ends newer, and gives its authorization request to the login pending, whose code the user
// has: see CanContinue. NotFound if either has ended.
func (s *Service) ContinueLogin(ctx context.Context, pending, newer LoginSession) error {
	return sessionExpired(s.Store.ContinueLogin(ctx, pending, newer, s.Now()))
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
