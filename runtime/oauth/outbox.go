package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// LoginEmail is an e-mail with a login code. It stays in the outbox until the mail server
// accepts it or its code has expired.
type LoginEmail struct {
	ID int64
	// To is the address that the user entered; it belongs to an owner of an account.
	To string
	// Code is the login code in plain text. It must not be logged.
	Code string
	// ExpiresAt is the expiry of the code and of the e-mail.
	ExpiresAt time.Time
	// Attempts counts how often the e-mail was leased, this time included.
	Attempts int
}

// EncryptedEmail is a LoginEmail as the outbox stores it.
type EncryptedEmail struct {
	ID         int64
	Ciphertext []byte
	Attempts   int
	ExpiresAt  time.Time
}

// EmailQueued returns a channel that receives after this process has queued an e-mail.
func (s *Service) EmailQueued() <-chan struct{} { return s.emailQueued }

// LeaseEmails returns at most limit e-mails that are due. Other replicas do not get them
// until the lease ends. Expired e-mails and e-mails to addresses that own no account are
// deleted here, so that the login page behaves the same for known and unknown addresses.
// Fewer than limit means that no more are due.
func (s *Service) LeaseEmails(ctx context.Context, limit int, lease time.Duration) ([]LoginEmail, error) {
	var emails []LoginEmail
	for {
		now := s.Now()
		wanted := limit - len(emails)
		rows, err := s.Store.LeaseEmails(ctx, wanted, now, now.Add(lease))
		if err != nil {
			return emails, err
		}
		for _, row := range rows {
			email, ok, openErr := s.openEmail(ctx, row, now)
			switch {
			case openErr != nil: // the other rows are leased as well and must not wait for this one
				err = openErr
			case ok:
				emails = append(emails, email)
			default:
				err = errors.Join(err, s.Store.DeleteEmail(ctx, row.ID))
			}
		}
		// Deleted e-mails must not delay those behind them in the queue.
		if err != nil || len(rows) < wanted || len(emails) >= limit {
			return emails, err
		}
	}
}

// openEmail decrypts an e-mail and reports whether it is to be delivered.
func (s *Service) openEmail(ctx context.Context, row EncryptedEmail, now time.Time) (LoginEmail, bool, error) {
	if !now.Before(row.ExpiresAt) {
		return LoginEmail{}, false, nil
	}
	var email LoginEmail
	plain, err := s.Encrypter.Decrypt(row.Ciphertext)
	if err == nil {
		err = json.Unmarshal(plain, &email)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "email dropped", "reason", "encrypted with another secret", "email_id", row.ID)
		return LoginEmail{}, false, nil //nolint:nilerr // it will never be readable
	}
	email.ID, email.Attempts = row.ID, row.Attempts
	isOwner, err := s.Store.IsOwner(ctx, email.To)
	return email, isOwner, err
}

// AckEmail deletes an e-mail that was delivered or never can be.
func (s *Service) AckEmail(ctx context.Context, id int64) error { return s.Store.DeleteEmail(ctx, id) }

// NackEmail ends the lease of an e-mail, which becomes due at the given time.
func (s *Service) NackEmail(ctx context.Context, id int64, at time.Time) error {
	return s.Store.RescheduleEmail(ctx, id, at)
}
