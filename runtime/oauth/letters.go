package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// EncryptedLetter is a letter as it is kept.
type EncryptedLetter struct {
	ID        int64
	Encrypted []byte
	Attempts  int
	ExpiresAt time.Time
}

// Waiting is told when this process put a letter into the queue.
func (s *Service) EmailQueued() <-chan struct{} { return s.emailQueued }

// Claim returns letters that are due, at most so many, and keeps other replicas from
// them for the lease. Those that nobody is to get, since they are too old or the
// address may not log in, are dropped here: sending or not sending happens behind the
// back of whoever asked. Fewer than most means that no more are due.
func (s *Service) LeaseEmails(ctx context.Context, most int, lease time.Duration) ([]LoginEmail, error) {
	var emails []LoginEmail
	for {
		now := s.Now()
		asked := most - len(emails)
		rows, err := s.Store.ClaimLetters(ctx, asked, now, now.Add(lease))
		if err != nil {
			return emails, err
		}
		for _, row := range rows {
			email, ok, problem := s.openEmail(ctx, row, now)
			switch {
			case problem != nil: // the others are claimed as well, and are not to wait for it
				err = problem
			case ok:
				emails = append(emails, email)
			default:
				err = errors.Join(err, s.Store.DeleteLetter(ctx, row.ID))
			}
		}
		// Letters that nobody gets must not keep those waiting that stand behind them.
		if err != nil || len(rows) < asked || len(emails) >= most {
			return emails, err
		}
	}
}

func (s *Service) openEmail(ctx context.Context, row EncryptedLetter, now time.Time) (LoginEmail, bool, error) {
	if !now.Before(row.ExpiresAt) {
		return LoginEmail{}, false, nil
	}
	var email LoginEmail
	plain, err := s.Encrypter.Decrypt(row.Encrypted)
	if err == nil {
		err = json.Unmarshal(plain, &email)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "a letter was encrypted with another secret and is dropped", "letter", row.ID)
		return LoginEmail{}, false, nil //nolint:nilerr // nobody can ever read it
	}
	email.ID, email.Attempts = row.ID, row.Attempts
	known, err := s.Store.OwnsSomething(ctx, email.To)
	return email, known, err
}

// Sent forgets a letter that was sent, or never can be.
func (s *Service) AckEmail(ctx context.Context, id int64) error { return s.Store.DeleteLetter(ctx, id) }

// Retry leaves a letter for later.
func (s *Service) NackEmail(ctx context.Context, id int64, at time.Time) error {
	return s.Store.DelayLetter(ctx, id, at)
}
