package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// AddClient implements oauth.Store.
func (s Logins) AddClient(ctx context.Context, client oauth.Client, limit oauth.RateLimit) (oauth.Client, error) {
	known, err := s.FindClient(ctx, client.ID)
	if !fault.Is(err, fault.NotFound) {
		return known, err
	}
	err = s.inTx(ctx, "add client", func(q *sqlgen.Queries) error {
		row, err := q.InsertClient(ctx, sqlgen.InsertClientParams{ID: client.ID, Name: client.Name, Website: client.Website,
			RedirectUris: client.RedirectURIs, CreatedAt: client.CreatedAt})
		if errors.Is(err, pgx.ErrNoRows) { // a concurrent request registered the same client
			row, err = q.FindClient(ctx, client.ID)
		} else if err == nil {
			err = consumeRateLimit(ctx, q, limit)
		}
		client = clientOf(row)
		return err
	})
	return client, err
}

// FindClient implements oauth.Store.
func (s Logins) FindClient(ctx context.Context, id string) (oauth.Client, error) {
	row, err := s.idempotent.FindClient(ctx, id)
	return clientOf(row), toFault(err, "find client")
}

func clientOf(row sqlgen.OAuthClient) oauth.Client {
	return oauth.Client{ID: row.ID, Name: row.Name, Website: row.Website, RedirectURIs: row.RedirectUris, CreatedAt: row.CreatedAt}
}
