package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// ClaimLetters implements oauth.Store.
func (s *Store) ClaimLetters(ctx context.Context, most int, now, leaseEnds time.Time) ([]oauth.EncryptedLetter, error) {
	rows, err := s.queries.LeaseEmails(ctx, sqlgen.LeaseEmailsParams{Batch: int32(most), Now: now, LeaseEnds: leaseEnds}) //nolint:gosec // a few
	if err != nil {
		return nil, classify(err, "claim letters")
	}
	letters := make([]oauth.EncryptedLetter, 0, len(rows))
	for _, row := range rows {
		letters = append(letters, oauth.EncryptedLetter{ID: row.ID, Encrypted: row.Encrypted, Attempts: int(row.Attempts), ExpiresAt: row.ExpiresAt})
	}
	return letters, nil
}

// DeleteLetter implements oauth.Store.
func (s *Store) DeleteLetter(ctx context.Context, id int64) error {
	return classify(s.queries.DeleteEmail(ctx, id), "delete letter")
}

// DelayLetter implements oauth.Store.
func (s *Store) DelayLetter(ctx context.Context, id int64, until time.Time) error {
	return classify(s.queries.DelayEmail(ctx, sqlgen.DelayEmailParams{ID: id, NotBefore: until}), "delay letter")
}
