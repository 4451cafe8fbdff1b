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
func (s *Service) Waiting() <-chan struct{} { return s.waiting }

// Claim returns letters that are due, at most so many, and keeps other replicas from
// them for the lease. Those that nobody is to get, since they are too old or the
// address may not log in, are dropped here: sending or not sending happens behind the
// back of whoever asked. Fewer than most means that no more are due.
func (s *Service) Claim(ctx context.Context, most int, lease time.Duration) ([]Letter, error) {
	var letters []Letter
	for {
		now := s.Now()
		asked := most - len(letters)
		rows, err := s.Store.ClaimLetters(ctx, asked, now, now.Add(lease))
		if err != nil {
			return letters, err
		}
		for _, row := range rows {
			letter, ok, problem := s.deliverable(ctx, row, now)
			switch {
			case problem != nil: // the others are claimed as well, and are not to wait for it
				err = problem
			case ok:
				letters = append(letters, letter)
			default:
				err = errors.Join(err, s.Store.DeleteLetter(ctx, row.ID))
			}
		}
		// Letters that nobody gets must not keep those waiting that stand behind them.
		if err != nil || len(rows) < asked || len(letters) >= most {
			return letters, err
		}
	}
}

func (s *Service) deliverable(ctx context.Context, row EncryptedLetter, now time.Time) (Letter, bool, error) {
	if !now.Before(row.ExpiresAt) {
		return Letter{}, false, nil
	}
	var letter Letter
	plain, err := s.Encrypter.Decrypt(row.Encrypted)
	if err == nil {
		err = json.Unmarshal(plain, &letter)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "a letter was encrypted with another secret and is dropped", "letter", row.ID)
		return Letter{}, false, nil //nolint:nilerr // nobody can ever read it
	}
	letter.ID, letter.Attempts = row.ID, row.Attempts
	known, err := s.Store.OwnsSomething(ctx, letter.To)
	return letter, known, err
}

// Sent forgets a letter that was sent, or never can be.
func (s *Service) Sent(ctx context.Context, id int64) error { return s.Store.DeleteLetter(ctx, id) }

// Retry leaves a letter for later.
func (s *Service) Retry(ctx context.Context, id int64, at time.Time) error {
	return s.Store.DelayLetter(ctx, id, at)
}
