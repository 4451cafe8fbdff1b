package webhook

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/work"
)

const (
	// slowAfter is how long an attempt takes that makes its webhook slow: its deliveries run in slots of their own, so that they hold only
	// each other up.
	slowAfter = time.Second
	// leaveAfter is after how long an attempt leaves its slot to others. The webhook is slow by then.
	leaveAfter = slowAfter * 5 / 4
	// slowFor is how long a webhook stays slow in a process after such an attempt. One that hangs now and then never gets many of the others'
	// slots.
	slowFor = time.Minute
	// spareShare is which part of the slots, the last free ones, is for webhooks of which no delivery runs.
	spareShare = 4
	// accountShare is which part of the slots for slow webhooks those of one account may hold. Those of all accounts count as one.
	accountShare = 4
)

// apart knows the webhooks whose deliveries a process does not send with those of others: those that are slow, and those that it cannot decrypt.
type apart struct {
	mu   sync.Mutex
	read time.Time // the database, last
	// slow and foreign are what the database says, slow with their accounts.
	slow    map[uuid.UUID]uuid.UUID
	foreign map[uuid.UUID]bool
	// marks are what the process has seen itself, running attempts included.
	marks map[uuid.UUID]mark
	// offered is the number of the offer that had a slow webhook last, so that they take turns.
	offered map[uuid.UUID]int
	offers  int
}

// mark is an attempt that took long.
type mark struct {
	account uuid.UUID
	at      time.Time
}

func newApart() apart {
	return apart{marks: map[uuid.UUID]mark{}, offered: map[uuid.UUID]int{}}
}

// mark remembers that an attempt takes long.
func (a *apart) mark(r Receiver, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks[r.ID] = mark{r.AccountID, now}
}

// selectWebhooks is the Select of the Policy.
func (s *Service) selectWebhooks(ctx context.Context, claim work.Selecting) (work.Selection, error) {
	s.apart.mu.Lock()
	defer s.apart.mu.Unlock()
	now := s.deps.Now()
	if err := s.readApart(ctx, now); err != nil {
		return work.Selection{}, err
	}
	slow := s.apart.slowNow()
	if claim.Slow {
		return work.Selection{Only: s.apart.offer(slow, claim)}, nil
	}
	return work.Selection{Except: slices.AppendSeq(slices.Collect(maps.Keys(slow)), maps.Keys(s.apart.foreign))}, nil
}

// readApart reads what the database says, once in a CheckInterval.
func (s *Service) readApart(ctx context.Context, now time.Time) error {
	a := &s.apart
	if age := now.Sub(a.read); age >= 0 && age < s.cfg.CheckInterval {
		return nil
	}
	rows, err := s.deps.Store.Apart(ctx, s.deps.Opener.IDs())
	if err != nil {
		return err
	}
	before := len(a.foreign)
	a.read, a.slow, a.foreign = now, map[uuid.UUID]uuid.UUID{}, map[uuid.UUID]bool{}
	for _, row := range rows {
		if row.Slow {
			a.slow[row.ID] = row.AccountID
		}
		if row.ForeignKey {
			a.foreign[row.ID] = true
		}
	}
	maps.DeleteFunc(a.marks, func(_ uuid.UUID, m mark) bool { return now.Sub(m.at) > slowFor })
	switch {
	case before == 0 && len(a.foreign) > 0:
		s.deps.Log.WarnContext(ctx, "webhooks are encrypted for another server secret than that of this process, which sends nothing to them until the operator has encrypted them again", "webhooks", len(a.foreign))
	case before > 0 && len(a.foreign) == 0:
		s.deps.Log.InfoContext(ctx, "all webhooks are encrypted for the server secret of this process")
	}
	return nil
}

// slowNow returns the slow webhooks that the process can decrypt, with their accounts.
func (a *apart) slowNow() map[uuid.UUID]uuid.UUID {
	slow := maps.Clone(a.slow)
	for id, m := range a.marks {
		slow[id] = m.account
	}
	maps.DeleteFunc(slow, func(id, _ uuid.UUID) bool { return a.foreign[id] })
	maps.DeleteFunc(a.offered, func(id uuid.UUID, _ int) bool { _, is := slow[id]; return !is })
	return slow
}

// offer returns of which slow webhooks deliveries are claimed, and how many of each at most. The share of an account is dealt out to its webhooks,
// one delivery after the other, first to those that were offered the longest time ago.
func (a *apart) offer(slow map[uuid.UUID]uuid.UUID, claim work.Selecting) map[uuid.UUID]int {
	share := max(1, claim.Slots/accountShare)
	held := map[uuid.UUID]int{} // by account
	for id, account := range slow {
		held[account] += claim.Running[id]
	}
	turns := slices.SortedFunc(maps.Keys(slow), func(x, y uuid.UUID) int {
		return cmp.Or(cmp.Compare(a.offered[x], a.offered[y]), bytes.Compare(x[:], y[:]))
	})
	offer := map[uuid.UUID]int{}
	a.offers++
	for range min(claim.PerAccount, share) {
		for _, id := range turns {
			if account := slow[id]; held[account] < share && claim.Running[id]+offer[id] < claim.PerAccount {
				held[account]++
				offer[id]++
				a.offered[id] = a.offers
			}
		}
	}
	return offer
}
