package oauth

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

// maxAuthorizedApps bounds the list of authorized applications.
const maxAuthorizedApps = 200

// AuthorizedApp is a grant as its owner sees it.
type AuthorizedApp struct {
	Grant
	AccountName string
	// Account is the namespace and name of the account.
	Account    string
	ToolPolicy account.ToolPolicy
	// Ceilings are those of the application, and those of all of the account; none if the account has none.
	Ceilings []account.CeilingUse
}

// AuthorizedApps returns the applications that the user has authorized, newest first.
func (s *Service) AuthorizedApps(ctx context.Context, session LoginSession) ([]AuthorizedApp, error) {
	if !session.LoggedIn() {
		return nil, ReasonNotLoggedIn.Fault()
	}
	return s.Store.AuthorizedApps(ctx, session.Email, s.Now(), maxAuthorizedApps)
}

// RevokeApps revokes one grant of the user, or all of them for the zero ID, and returns how many.
func (s *Service) RevokeApps(ctx context.Context, session LoginSession, id uuid.UUID) (int, error) {
	if !session.LoggedIn() {
		return 0, ReasonNotLoggedIn.Fault()
	}
	revoked, err := s.Store.RevokeGrants(ctx, session.Email, id, s.Now())
	if err == nil {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "oauth grants revoked by user", slog.Int("grants", revoked), slog.String("email", MaskEmail(session.Email)))
	}
	return revoked, err
}
