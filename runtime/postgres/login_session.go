package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/work"
)

// AddLoginSession implements oauth.Store.
func (s Logins) AddLoginSession(ctx context.Context, session oauth.LoginSession, now time.Time) error {
	var request []byte
	if session.AuthorizationRequest != nil {
		var err error
		if request, err = json.Marshal(session.AuthorizationRequest); err != nil {
			return fmt.Errorf("encode an authorization request: %w", err)
		}
	}
	return s.inTx(ctx, "add login session", func(q *sqlgen.Queries) error {
		if err := q.InsertLoginSession(ctx, sqlgen.InsertLoginSessionParams{ID: session.ID, CookieHash: session.CookieHash[:], AuthorizationRequest: request, ExpiresAt: session.ExpiresAt}); err != nil {
			return err
		}
		if session.AuthorizationRequest == nil || !session.AuthorizationRequest.Registered {
			return nil
		}
		return q.TouchClient(ctx, sqlgen.TouchClientParams{ID: session.AuthorizationRequest.ClientID, Now: now})
	})
}

// FindLoginSession implements oauth.Store.
func (s Logins) FindLoginSession(ctx context.Context, id uuid.UUID, cookieHash account.Hash, now time.Time) (oauth.LoginSession, error) {
	row, err := s.queries.FindLoginSession(ctx, sqlgen.FindLoginSessionParams{ID: id, CookieHash: cookieHash[:], Now: now})
	if err != nil {
		return oauth.LoginSession{}, toFault(err, "find login session")
	}
	return loginSessionOf(row)
}

func loginSessionOf(row sqlgen.LoginSession) (oauth.LoginSession, error) {
	session := oauth.LoginSession{ID: row.ID, Email: row.Email, CodeMAC: row.CodeMac, CodeSentAt: row.CodeSentAt, CodeExpiresAt: row.CodeExpiresAt,
		Attempts: int(row.Attempts), LoggedInAt: row.LoggedInAt, ExpiresAt: row.ExpiresAt}
	copy(session.CookieHash[:], row.CookieHash)
	if row.AuthorizationRequest != nil {
		session.AuthorizationRequest = &oauth.AuthorizationRequest{}
		if err := json.Unmarshal(row.AuthorizationRequest, session.AuthorizationRequest); err != nil {
			return oauth.LoginSession{}, fmt.Errorf("decode an authorization request: %w", err)
		}
	}
	return session, nil
}

// SetLoginCode implements oauth.Store.
func (s Logins) SetLoginCode(ctx context.Context, id uuid.UUID, cookieHash account.Hash, code oauth.LoginCode, limits []oauth.RateLimit) error {
	key, err := s.cell.NewID()
	if err != nil {
		return err
	}
	return s.inTx(ctx, "set login code", func(q *sqlgen.Queries) error {
		row, err := q.LockLoginSession(ctx, sqlgen.LockLoginSessionParams{ID: id, CookieHash: cookieHash[:], Now: code.Now})
		if err != nil {
			return err
		}
		if row.LoggedInAt != nil {
			return oauth.ReasonAlreadyLoggedIn.Fault()
		}
		for _, limit := range limits {
			if err := consumeRateLimit(ctx, q, limit); err != nil {
				return err
			}
		}
		if err := q.SetLoginCode(ctx, sqlgen.SetLoginCodeParams{ID: id, Email: code.Email, CodeMac: code.MAC, SentAt: code.Now, ExpiresAt: code.ExpiresAt}); err != nil {
			return err
		}
		return addTask(ctx, q, work.NewTask{Kind: oauth.EmailWork, Key: key, DueAt: code.Now, ExpiresAt: code.ExpiresAt, Payload: code.EncryptedEmail})
	})
}

// ConsumeAttempt implements oauth.Store.
func (s Logins) ConsumeAttempt(ctx context.Context, id uuid.UUID, cookieHash account.Hash, maxAttempts int, now time.Time, limitsOf func(oauth.LoginSession) []oauth.RateLimit) (oauth.LoginSession, error) {
	var session oauth.LoginSession
	err := s.inTx(ctx, "consume a code attempt", func(q *sqlgen.Queries) error {
		row, err := q.CountCodeAttempt(ctx, sqlgen.CountCodeAttemptParams{ID: id, CookieHash: cookieHash[:], Now: now, Max: int32(maxAttempts)}) //nolint:gosec // bounded by Config.Validate
		if err != nil {
			return err
		}
		if session, err = loginSessionOf(row); err != nil {
			return err
		}
		for _, limit := range limitsOf(session) {
			if err := consumeRateLimit(ctx, q, limit); err != nil {
				return err
			}
		}
		return nil
	})
	return session, err
}

// CompleteLogin implements oauth.Store.
func (s Logins) CompleteLogin(ctx context.Context, id uuid.UUID, codeMAC []byte, cookieHash account.Hash, now, expires time.Time, pause oauth.RateLimit) error {
	return s.inTx(ctx, "complete a login", func(q *sqlgen.Queries) error {
		n, err := q.SetLoggedIn(ctx, sqlgen.SetLoggedInParams{ID: id, CodeMac: codeMAC, NewCookieHash: cookieHash[:], Now: now, ExpiresAt: expires})
		if err == nil && n == 0 {
			err = pgx.ErrNoRows
		}
		if err != nil {
			return err
		}
		return q.ForgetRateLimit(ctx, sqlgen.ForgetRateLimitParams{Kind: pause.Kind, SubjectMac: pause.Subject})
	})
}

// ContinueLogin implements oauth.Store.
func (s Logins) ContinueLogin(ctx context.Context, pending, newer oauth.LoginSession, now time.Time) error {
	return s.inTx(ctx, "continue a login", func(q *sqlgen.Queries) error {
		ended, err := q.EndLoginSession(ctx, sqlgen.EndLoginSessionParams{ID: newer.ID, CookieHash: newer.CookieHash[:], Now: now})
		if err != nil {
			return err
		}
		n, err := q.SetAuthorizationRequest(ctx, sqlgen.SetAuthorizationRequestParams{ID: pending.ID, CookieHash: pending.CookieHash[:], AuthorizationRequest: ended.AuthorizationRequest, Now: now})
		if err == nil && n == 0 {
			err = pgx.ErrNoRows
		}
		return err
	})
}

// ExtendLoginSession implements oauth.Store.
func (s Logins) ExtendLoginSession(ctx context.Context, id uuid.UUID, cookieHash account.Hash, validAt, until time.Time) error {
	n, err := s.queries.ExtendLoginSession(ctx, sqlgen.ExtendLoginSessionParams{ID: id, CookieHash: cookieHash[:], ValidAt: validAt, Until: until})
	if err == nil && n == 0 {
		err = pgx.ErrNoRows
	}
	return toFault(err, "extend a login session")
}

// EndLoginSession implements oauth.Store.
func (s Logins) EndLoginSession(ctx context.Context, id uuid.UUID, cookieHash account.Hash, now time.Time) error {
	_, err := s.queries.EndLoginSession(ctx, sqlgen.EndLoginSessionParams{ID: id, CookieHash: cookieHash[:], Now: now})
	return toFault(err, "end login session")
}
