package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ oauth.Store = (*Store)(nil)

// take counts an attempt, or says when there will be room for another one.
func take(ctx context.Context, q *sqlgen.Queries, a oauth.Attempt) error {
	since := a.Now.Add(-a.Within)
	taken, err := q.TakeAttempt(ctx, sqlgen.TakeAttemptParams{Kind: a.Kind, Subject: a.Subject, Now: a.Now, Since: since, Most: int32(a.Most)}) //nolint:gosec // bounded by Config.Validate
	if err != nil || taken > 0 {
		return err
	}
	wait := a.Within
	oldest, err := q.OldestAttempt(ctx, sqlgen.OldestAttemptParams{Kind: a.Kind, Subject: a.Subject, Since: since})
	switch {
	case err == nil:
		wait = min(wait, oldest.Add(a.Within).Sub(a.Now)) // another replica's clock may be ahead
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	return &fault.Error{Kind: fault.Busy, Public: a.Sentence, RetryAfter: wait}
}

// AddClient implements oauth.Store.
func (s *Store) AddClient(ctx context.Context, client oauth.Client, attempt oauth.Attempt) (oauth.Client, error) {
	known, err := s.FindClient(ctx, client.ID)
	if !fault.Is(err, fault.NotFound) {
		return known, err
	}
	err = s.inTx(ctx, "add client", func(q *sqlgen.Queries) error {
		row, err := q.InsertClient(ctx, sqlgen.InsertClientParams{ID: client.ID, Name: client.Name, Website: client.Website,
			RedirectUris: client.RedirectURIs, CreatedAt: client.CreatedAt})
		if errors.Is(err, pgx.ErrNoRows) { // somebody said the same words just now
			row, err = q.Client(ctx, client.ID)
		} else if err == nil {
			err = take(ctx, q, attempt)
		}
		client = clientOf(row)
		return err
	})
	return client, err
}

// FindClient implements oauth.Store.
func (s *Store) FindClient(ctx context.Context, id string) (oauth.Client, error) {
	row, err := s.queries.Client(ctx, id)
	return clientOf(row), classify(err, "find client")
}

func clientOf(row sqlgen.LoginClient) oauth.Client {
	return oauth.Client{ID: row.ID, Name: row.Name, Website: row.Website, RedirectURIs: row.RedirectUris, CreatedAt: row.CreatedAt}
}

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
		if err := q.InsertRequest(ctx, sqlgen.InsertRequestParams{ID: request.ID, Browser: request.Browser[:], Ask: ask, ExpiresAt: request.ExpiresAt}); err != nil {
			return err
		}
		if request.Ask == nil || !request.Ask.Registered {
			return nil
		}
		return q.UseClient(ctx, sqlgen.UseClientParams{ID: request.Ask.ClientID, Now: now})
	})
}

// FindRequest implements oauth.Store.
func (s *Store) FindRequest(ctx context.Context, id uuid.UUID, browser account.Hash, now time.Time) (oauth.Request, error) {
	row, err := s.queries.Request(ctx, sqlgen.RequestParams{ID: id, Browser: browser[:], Now: now})
	if err != nil {
		return oauth.Request{}, classify(err, "find login request")
	}
	return requestOf(row)
}

func requestOf(row sqlgen.LoginRequest) (oauth.Request, error) {
	request := oauth.Request{ID: row.ID, Address: row.Address, CodeMAC: row.CodeMac, CodeSentAt: row.CodeSentAt, CodeExpires: row.CodeExpiresAt,
		Tries: int(row.Tries), LoggedInAt: row.LoggedInAt, ExpiresAt: row.ExpiresAt}
	copy(request.Browser[:], row.Browser)
	if row.Ask != nil {
		request.Ask = &oauth.Ask{}
		if err := json.Unmarshal(row.Ask, request.Ask); err != nil {
			return oauth.Request{}, fmt.Errorf("read a login request: %w", err)
		}
	}
	return request, nil
}

// SetCode implements oauth.Store.
func (s *Store) SetCode(ctx context.Context, id uuid.UUID, browser account.Hash, code oauth.NewCode, takes []oauth.Attempt) error {
	return s.inTx(ctx, "set login code", func(q *sqlgen.Queries) error {
		row, err := q.LockRequest(ctx, sqlgen.LockRequestParams{ID: id, Browser: browser[:], Now: code.Now})
		if err != nil {
			return err
		}
		if row.LoggedInAt != nil {
			return fault.New(fault.Conflict, "You are logged in already.")
		}
		for _, attempt := range takes {
			if err := take(ctx, q, attempt); err != nil {
				return err
			}
		}
		if err := q.SetCode(ctx, sqlgen.SetCodeParams{ID: id, Address: code.Address, CodeMac: code.MAC, SentAt: code.Now, ExpiresAt: code.Expires}); err != nil {
			return err
		}
		return q.InsertLetter(ctx, sqlgen.InsertLetterParams{Sealed: code.Letter, NotBefore: code.Now, ExpiresAt: code.Expires})
	})
}

// TakeTry implements oauth.Store.
func (s *Store) TakeTry(ctx context.Context, id uuid.UUID, browser account.Hash, most int, now time.Time, attempt func(oauth.Request) oauth.Attempt) (oauth.Request, error) {
	var request oauth.Request
	err := s.inTx(ctx, "take a try", func(q *sqlgen.Queries) error {
		row, err := q.TakeTry(ctx, sqlgen.TakeTryParams{ID: id, Browser: browser[:], Now: now, Most: int32(most)}) //nolint:gosec // bounded by Config.Validate
		if err != nil {
			return err
		}
		if request, err = requestOf(row); err != nil {
			return err
		}
		return take(ctx, q, attempt(request))
	})
	return request, err
}

// LogIn implements oauth.Store.
func (s *Store) LogIn(ctx context.Context, id uuid.UUID, codeMAC []byte, browser account.Hash, now, expires time.Time) error {
	n, err := s.queries.LogIn(ctx, sqlgen.LogInParams{ID: id, CodeMac: codeMAC, NewBrowser: browser[:], Now: now, ExpiresAt: expires})
	if err == nil && n == 0 {
		err = pgx.ErrNoRows
	}
	return classify(err, "log in")
}

// EndRequest implements oauth.Store.
func (s *Store) EndRequest(ctx context.Context, id uuid.UUID, browser account.Hash, now time.Time) error {
	_, err := s.queries.EndRequest(ctx, sqlgen.EndRequestParams{ID: id, Browser: browser[:], Now: now})
	return classify(err, "end login request")
}

// Accounts implements oauth.Store.
func (s *Store) Accounts(ctx context.Context, address string, most int) ([]account.Account, error) {
	rows, err := s.queries.AccountsOfOwner(ctx, sqlgen.AccountsOfOwnerParams{Address: address, Most: int32(most)}) //nolint:gosec // a constant
	if err != nil {
		return nil, classify(err, "find accounts of an owner")
	}
	accounts := make([]account.Account, 0, len(rows))
	for _, row := range rows {
		accounts = append(accounts, accountOf(row))
	}
	return accounts, nil
}

// OwnsSomething implements oauth.Store.
func (s *Store) OwnsSomething(ctx context.Context, address string) (bool, error) {
	owns, err := s.queries.OwnsSomething(ctx, address)
	return owns, classify(err, "look for an owner")
}

// Grant implements oauth.Store.
func (s *Store) Grant(ctx context.Context, request oauth.Request, grant oauth.Grant, code oauth.Code) error {
	return s.inTx(ctx, "grant", func(q *sqlgen.Queries) error {
		ended, err := q.EndRequest(ctx, sqlgen.EndRequestParams{ID: request.ID, Browser: request.Browser[:], Now: grant.CreatedAt})
		if err != nil {
			return err
		}
		if ended.LoggedInAt == nil || ended.Address != grant.Address {
			return fault.New(fault.Unauthenticated, "log in first")
		}
		if _, err := q.ShareAccountOfOwner(ctx, sqlgen.ShareAccountOfOwnerParams{ID: grant.AccountID, Address: grant.Address}); err != nil {
			return notChosen(err)
		}
		key, err := q.DefaultKey(ctx, sqlgen.DefaultKeyParams{AccountID: grant.AccountID, App: account.DefaultApp, Now: grant.CreatedAt})
		if err != nil {
			return notChosen(err)
		}
		scopes := make([]string, 0, len(grant.Scopes))
		for _, scope := range grant.Scopes {
			scopes = append(scopes, string(scope))
		}
		if err := q.InsertGrant(ctx, sqlgen.InsertGrantParams{ID: grant.ID, AccountID: grant.AccountID, KeyID: key.ID, Address: grant.Address, ClientID: grant.ClientID,
			ClientName: grant.ClientName, RedirectUri: grant.RedirectURI, Scopes: scopes, Resource: grant.Resource, CreatedAt: grant.CreatedAt}); err != nil {
			return err
		}
		return q.InsertCode(ctx, sqlgen.InsertCodeParams{Hash: code.Hash[:], GrantID: grant.ID, Challenge: code.Challenge, ExpiresAt: code.ExpiresAt})
	})
}

func notChosen(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.Wrap(err, fault.Conflict, "You can't connect this account (any more).")
	}
	return err
}

// Redeem implements oauth.Store.
func (s *Store) Redeem(ctx context.Context, hash account.Hash, now time.Time, check func(oauth.Grant, oauth.Code) ([]oauth.Token, error)) error {
	var refusal error // of a use that is written down all the same
	err := s.inTx(ctx, "redeem a code", func(q *sqlgen.Queries) error {
		row, err := q.UseCode(ctx, sqlgen.UseCodeParams{Hash: hash[:], Now: now})
		if errors.Is(err, pgx.ErrNoRows) {
			if row, err = q.UsedCode(ctx, hash[:]); err != nil {
				return err
			}
			refusal = fault.Wrap(oauth.ErrRefused, fault.Invalid, "the code was used before: what it gave has ended")
			return revoke(ctx, q, row.GrantID, now, "code used twice")
		}
		if err != nil {
			return err
		}
		grant, err := lockGrant(ctx, q, row.GrantID, now)
		if err != nil {
			return err
		}
		code := oauth.Code{Hash: hash, Challenge: row.Challenge, ExpiresAt: row.ExpiresAt}
		tokens, err := check(grant, code)
		if errors.Is(err, oauth.ErrRefused) {
			refusal = err
			return revoke(ctx, q, grant.ID, now, "code refused")
		}
		if err != nil {
			return err
		}
		return insertTokens(ctx, q, grant.ID, tokens)
	})
	return errors.Join(refusal, err)
}

// Rotate implements oauth.Store.
func (s *Store) Rotate(ctx context.Context, hash account.Hash, now time.Time, check func(oauth.Grant, oauth.Token) ([]oauth.Token, error)) error {
	var theft error
	err := s.inTx(ctx, "rotate a refresh token", func(q *sqlgen.Queries) error {
		row, err := q.LockRefreshToken(ctx, hash[:])
		if err != nil {
			return err
		}
		grant, err := lockGrant(ctx, q, row.GrantID, now)
		if err != nil {
			return err
		}
		tokens, err := check(grant, oauth.Token{Hash: hash, Refresh: true, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RotatedAt: row.RotatedAt, Pairs: int(row.Pairs)})
		if stolen := new(oauth.Theft); errors.As(err, &stolen) {
			theft = err
			return revoke(ctx, q, grant.ID, now, "refresh token used again")
		}
		if err != nil {
			return err
		}
		if err := q.RotateToken(ctx, sqlgen.RotateTokenParams{Hash: hash[:], Now: now}); err != nil {
			return err
		}
		// Keys are rotated, too: in the time that the old one has left, sessions move on to the new.
		key, err := q.DefaultKey(ctx, sqlgen.DefaultKeyParams{AccountID: grant.AccountID, App: account.DefaultApp, Now: now})
		if err != nil {
			return err
		}
		if err := q.MoveGrant(ctx, sqlgen.MoveGrantParams{ID: grant.ID, KeyID: key.ID}); err != nil {
			return err
		}
		return insertTokens(ctx, q, grant.ID, tokens)
	})
	return errors.Join(theft, err)
}

func lockGrant(ctx context.Context, q *sqlgen.Queries, id uuid.UUID, now time.Time) (oauth.Grant, error) {
	row, err := q.LockGrant(ctx, sqlgen.LockGrantParams{ID: id, Now: now})
	grant := grantOf(row.LoginGrant)
	grant.Suspended, grant.Owner, grant.KeyValid = row.Suspended, row.Owner, row.KeyValid
	return grant, err
}

func grantOf(row sqlgen.LoginGrant) oauth.Grant {
	return oauth.Grant{ID: row.ID, AccountID: row.AccountID, KeyID: row.KeyID, Address: row.Address, ClientID: row.ClientID, ClientName: row.ClientName,
		RedirectURI: row.RedirectUri, Scopes: scopesOf(row.Scopes), Resource: row.Resource, CreatedAt: row.CreatedAt, LastUsedAt: row.LastUsedAt}
}

func scopesOf(texts []string) []oauth.Scope {
	scopes := make([]oauth.Scope, 0, len(texts))
	for _, text := range texts {
		scopes = append(scopes, oauth.Scope(text))
	}
	return scopes
}

func revoke(ctx context.Context, q *sqlgen.Queries, id uuid.UUID, now time.Time, why string) error {
	_, err := q.RevokeGrant(ctx, sqlgen.RevokeGrantParams{ID: id, Now: now, Why: why})
	return err
}

func insertTokens(ctx context.Context, q *sqlgen.Queries, grantID uuid.UUID, tokens []oauth.Token) error {
	for _, token := range tokens {
		if err := q.InsertLoginToken(ctx, sqlgen.InsertLoginTokenParams{Hash: token.Hash[:], GrantID: grantID, Refresh: token.Refresh,
			CreatedAt: token.CreatedAt, ExpiresAt: token.ExpiresAt}); err != nil {
			return err
		}
	}
	return nil
}

// RevokeToken implements oauth.Store.
func (s *Store) RevokeToken(ctx context.Context, hash account.Hash, clientID string, now time.Time) error {
	return s.inTx(ctx, "revoke a token", func(q *sqlgen.Queries) error {
		row, err := q.AnyToken(ctx, hash[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case clientID != "" && row.ClientID != clientID:
			return fault.Wrap(oauth.ErrRefused, fault.Invalid, "the token belongs to another client")
		}
		return revoke(ctx, q, row.GrantID, now, "revoked by the application")
	})
}

// FindSession returns who an access token stands for; NotFound when nobody. Whether token
// and key have expired is for the caller's clock.
func (s *Store) FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error) {
	row, err := s.queries.Session(ctx, hash[:])
	if err != nil {
		return oauth.Session{}, classify(err, "find session")
	}
	return oauth.Session{Principal: principalOf(row.Account, row.App, row.ApiKey), GrantID: row.GrantID, Scopes: scopesOf(row.Scopes),
		Resource: row.Resource, ExpiresAt: row.TokenExpiresAt}, nil
}

// FindSessionOfGrant returns who a grant stands for, without a token; NotFound when it has ended.
func (s *Store) FindSessionOfGrant(ctx context.Context, id uuid.UUID) (oauth.Session, error) {
	row, err := s.queries.SessionOfGrant(ctx, id)
	if err != nil {
		return oauth.Session{}, classify(err, "find session of grant")
	}
	return oauth.Session{Principal: principalOf(row.Account, row.App, row.ApiKey), GrantID: row.GrantID, Scopes: scopesOf(row.Scopes), Resource: row.Resource}, nil
}

// TouchGrants notes when grants were last used. Those that are gone are left out.
func (s *Store) TouchGrants(ctx context.Context, used map[uuid.UUID]time.Time) error {
	params := sqlgen.TouchGrantsParams{}
	for id, at := range used {
		params.Ids = append(params.Ids, id)
		params.UsedAt = append(params.UsedAt, at)
	}
	return classify(s.queries.TouchGrants(ctx, params), "touch grants")
}

// Connections implements oauth.Store.
func (s *Store) Connections(ctx context.Context, address string, now time.Time, most int) ([]oauth.Connection, error) {
	rows, err := s.queries.Connections(ctx, sqlgen.ConnectionsParams{Address: address, Now: now, Most: int32(most)}) //nolint:gosec // a constant
	if err != nil {
		return nil, classify(err, "find connections")
	}
	connections := make([]oauth.Connection, 0, len(rows))
	for _, row := range rows {
		connection := oauth.Connection{Grant: grantOf(row.LoginGrant), AccountName: row.DisplayName}
		if connection.AccountName == "" {
			connection.AccountName = row.Name
		}
		connections = append(connections, connection)
	}
	return connections, nil
}

// EndConnections implements oauth.Store.
func (s *Store) EndConnections(ctx context.Context, address string, id uuid.UUID, now time.Time) (int, error) {
	n, err := s.queries.RevokeOwn(ctx, sqlgen.RevokeOwnParams{Address: address, Now: now, ID: pgtype.UUID{Bytes: id, Valid: id != uuid.Nil}})
	return int(n), classify(err, "end connections")
}

// ClaimLetters implements oauth.Store.
func (s *Store) ClaimLetters(ctx context.Context, most int, now, leaseEnds time.Time) ([]oauth.EncryptedLetter, error) {
	rows, err := s.queries.ClaimLetters(ctx, sqlgen.ClaimLettersParams{Most: int32(most), Now: now, LeaseEnds: leaseEnds}) //nolint:gosec // a few
	if err != nil {
		return nil, classify(err, "claim letters")
	}
	letters := make([]oauth.EncryptedLetter, 0, len(rows))
	for _, row := range rows {
		letters = append(letters, oauth.EncryptedLetter{ID: row.ID, Encrypted: row.Sealed, Attempts: int(row.Attempts), ExpiresAt: row.ExpiresAt})
	}
	return letters, nil
}

// DeleteLetter implements oauth.Store.
func (s *Store) DeleteLetter(ctx context.Context, id int64) error {
	return classify(s.queries.DeleteLetter(ctx, id), "delete letter")
}

// DelayLetter implements oauth.Store.
func (s *Store) DelayLetter(ctx context.Context, id int64, until time.Time) error {
	return classify(s.queries.DelayLetter(ctx, sqlgen.DelayLetterParams{ID: id, NotBefore: until}), "delay letter")
}

// PurgeLogins implements oauth.Purger.
func (s *Store) PurgeLogins(ctx context.Context, now, clientsBefore time.Time, batch int) (int, error) {
	limit := int32(batch) //nolint:gosec // a constant
	total := 0
	// Attempts count for an hour, and what is over is of use to nobody; the rest waits
	// for those that point at it.
	for _, step := range []func() (int64, error){
		func() (int64, error) {
			return s.queries.PurgeLetters(ctx, sqlgen.PurgeLettersParams{Before: now, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeAttempts(ctx, sqlgen.PurgeAttemptsParams{Before: now.Add(-time.Hour), Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeRequests(ctx, sqlgen.PurgeRequestsParams{Before: now, Batch: limit})
		},
		func() (int64, error) {
			// A day longer: whoever still sends one is no stranger who guesses.
			return s.queries.PurgeTokens(ctx, sqlgen.PurgeTokensParams{Before: now.Add(-24 * time.Hour), Batch: limit})
		},
		func() (int64, error) {
			// Nothing goes yet: why a connection ended can be read for a week.
			_, err := s.queries.EndGrantsOfKeys(ctx, now)
			return 0, err
		},
		func() (int64, error) {
			return s.queries.PurgeGrants(ctx, sqlgen.PurgeGrantsParams{Before: now.Add(-7 * 24 * time.Hour), Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeClients(ctx, sqlgen.PurgeClientsParams{Before: clientsBefore, Batch: limit})
		},
	} {
		n, err := step()
		total += int(n)
		if err != nil {
			return total, classify(err, "purge logins")
		}
	}
	return total, nil
}
