package login

import (
	"context"
	"encoding/json"
	"time"
)

// SealedLetter is a letter as it is kept.
type SealedLetter struct {
	ID        int64
	Sealed    []byte
	Attempts  int
	ExpiresAt time.Time
}

// Waiting is told when this process put a letter into the queue.
func (s *Service) Waiting() <-chan struct{} { return s.waiting }

// Claim gives letters that are due, at most so many, and keeps other replicas from
// them for the lease. Those that nobody is to get, since they are too old or the
// address may not log in, are dropped here: sending or not sending happens behind the
// back of whoever asked.
func (s *Service) Claim(ctx context.Context, most int, lease time.Duration) ([]Letter, error) {
	now := s.Now()
	sealed, err := s.Store.ClaimLetters(ctx, most, now, now.Add(lease))
	if err != nil {
		return nil, err
	}
	var letters []Letter
	for _, row := range sealed {
		letter, ok, err := s.deliverable(ctx, row, now)
		if err != nil {
			return letters, err
		}
		if !ok {
			if err := s.Store.DeleteLetter(ctx, row.ID); err != nil {
				return letters, err
			}
			continue
		}
		letters = append(letters, letter)
	}
	return letters, nil
}

func (s *Service) deliverable(ctx context.Context, row SealedLetter, now time.Time) (Letter, bool, error) {
	if !now.Before(row.ExpiresAt) {
		return Letter{}, false, nil
	}
	var letter Letter
	plain, err := s.Sealer.Open(row.Sealed)
	if err == nil {
		err = json.Unmarshal(plain, &letter)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "a letter was sealed with another secret and is dropped", "letter", row.ID)
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
