package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// LeaseEmails implements oauth.Store.
func (s *Store) LeaseEmails(ctx context.Context, limit int, now, leaseEnds time.Time) ([]oauth.EncryptedEmail, error) {
	rows, err := s.queries.LeaseEmails(ctx, sqlgen.LeaseEmailsParams{Batch: int32(limit), Now: now, LeaseEnds: leaseEnds}) //nolint:gosec // a few
	if err != nil {
		return nil, toFault(err, "lease e-mails")
	}
	emails := make([]oauth.EncryptedEmail, 0, len(rows))
	for _, row := range rows {
		emails = append(emails, oauth.EncryptedEmail{ID: row.ID, Ciphertext: row.Encrypted, Attempts: int(row.Attempts), ExpiresAt: row.ExpiresAt})
	}
	return emails, nil
}

// DeleteEmail implements oauth.Store.
func (s *Store) DeleteEmail(ctx context.Context, id int64) error {
	return toFault(s.queries.DeleteEmail(ctx, id), "delete e-mail")
}

// RescheduleEmail implements oauth.Store.
func (s *Store) RescheduleEmail(ctx context.Context, id int64, until time.Time) error {
	return toFault(s.queries.DelayEmail(ctx, sqlgen.DelayEmailParams{ID: id, NotBefore: until}), "reschedule e-mail")
}
