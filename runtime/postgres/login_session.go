package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// AddRequest implements oauth.Store.
func (s *Store) AddRequest(ctx context.Context, request oauth.Request, now time.Time) error {
	var ask []byte
	if request.Ask != nil {
		var err error
		if ask, err = json.Marshal(request.Ask); err != nil {
			return fmt.Errorf("write a login request: %w", err)
		}
	}
	return s.inTx(ctx, "add login request", func(q *sqlgen.Queries) error {
		if err := q.InsertLoginSession(ctx, sqlgen.InsertLoginSessionParams{ID: request.ID, CookieHash: request.Browser[:], AuthorizationRequest: ask, ExpiresAt: request.ExpiresAt}); err != nil {
			return err
		}
		if request.Ask == nil || !request.Ask.Registered {
			return nil
		}
		return q.TouchClient(ctx, sqlgen.TouchClientParams{ID: request.Ask.ClientID, Now: now})
	})
}

// FindRequest implements oauth.Store.
func (s *Store) FindRequest(ctx context.Context, id uuid.UUID, browser account.Hash, now time.Time) (oauth.Request, error) {
	row, err := s.queries.FindLoginSession(ctx, sqlgen.FindLoginSessionParams{ID: id, CookieHash: browser[:], Now: now})
	if err != nil {
		return oauth.Request{}, classify(err, "find login request")
	}
	return requestOf(row)
}

func requestOf(row sqlgen.LoginSession) (oauth.Request, error) {
	request := oauth.Request{ID: row.ID, Address: row.Email, CodeMAC: row.CodeMac, CodeSentAt: row.CodeSentAt, CodeExpires: row.CodeExpiresAt,
		Tries: int(row.Attempts), LoggedInAt: row.LoggedInAt, ExpiresAt: row.ExpiresAt}
	copy(request.Browser[:], row.CookieHash)
	if row.AuthorizationRequest != nil {
		request.Ask = &oauth.Ask{}
		if err := json.Unmarshal(row.AuthorizationRequest, request.Ask); err != nil {
			return oauth.Request{}, fmt.Errorf("read a login request: %w", err)
		}
	}
	return request, nil
}

// SetCode implements oauth.Store.
func (s *Store) SetCode(ctx context.Context, id uuid.UUID, browser account.Hash, code oauth.NewCode, takes []oauth.Attempt) error {
	return s.inTx(ctx, "set login code", func(q *sqlgen.Queries) error {
		row, err := q.LockLoginSession(ctx, sqlgen.LockLoginSessionParams{ID: id, CookieHash: browser[:], Now: code.Now})
		if err != nil {
			return err
		}
		if row.LoggedInAt != nil {
			return fault.New(fault.Conflict, "You are logged in already.")
		}
		for _, attempt := range takes {
			if err := consumeRateLimit(ctx, q, attempt); err != nil {
				return err
			}
		}
		if err := q.SetLoginCode(ctx, sqlgen.SetLoginCodeParams{ID: id, Email: code.Address, CodeMac: code.MAC, SentAt: code.Now, ExpiresAt: code.Expires}); err != nil {
			return err
		}
		return q.EnqueueEmail(ctx, sqlgen.EnqueueEmailParams{Encrypted: code.Letter, NotBefore: code.Now, ExpiresAt: code.Expires})
	})
}

// TakeTry implements oauth.Store.
func (s *Store) TakeTry(ctx context.Context, id uuid.UUID, browser account.Hash, most int, now time.Time, attempt func(oauth.Request) oauth.Attempt) (oauth.Request, error) {
	var request oauth.Request
	err := s.inTx(ctx, "take a try", func(q *sqlgen.Queries) error {
		row, err := q.CountCodeAttempt(ctx, sqlgen.CountCodeAttemptParams{ID: id, CookieHash: browser[:], Now: now, Max: int32(most)}) //nolint:gosec // bounded by Config.Validate
		if err != nil {
			return err
		}
		if request, err = requestOf(row); err != nil {
			return err
		}
		return consumeRateLimit(ctx, q, attempt(request))
	})
	return request, err
}

// LogIn implements oauth.Store.
func (s *Store) LogIn(ctx context.Context, id uuid.UUID, codeMAC []byte, browser account.Hash, now, expires time.Time) error {
	n, err := s.queries.SetLoggedIn(ctx, sqlgen.SetLoggedInParams{ID: id, CodeMac: codeMAC, NewCookieHash: browser[:], Now: now, ExpiresAt: expires})
	if err == nil && n == 0 {
		err = pgx.ErrNoRows
	}
	return classify(err, "log in")
}

// EndRequest implements oauth.Store.
func (s *Store) EndRequest(ctx context.Context, id uuid.UUID, browser account.Hash, now time.Time) error {
	_, err := s.queries.EndLoginSession(ctx, sqlgen.EndLoginSessionParams{ID: id, CookieHash: browser[:], Now: now})
	return classify(err, "end login request")
}
