package media

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

func TestWhoseLeavingLetsSomebodyIn(t *testing.T) {
	t.Parallel()
	busy, quiet, other := uuid.New(), uuid.New(), uuid.New()
	g := newGate(gateLimits{places: 3, share: 2, queue: 100, wait: time.Minute})
	for _, account := range []uuid.UUID{busy, busy, quiet} {
		if err := g.enter(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, of map[uuid.UUID]bool) {
		t.Helper()
		for account, want := range of {
			if got := g.wanted(account); got != want {
				t.Errorf("%s: %t, want %t", when, got, want)
			}
		}
	}
	expect("nobody waits", map[uuid.UUID]bool{busy: false, quiet: false})
	enters(t, g, busy)
	expect("one waits who has its share: others can't help", map[uuid.UUID]bool{busy: true, quiet: false})
	enters(t, g, other)
	expect("one waits who has none", map[uuid.UUID]bool{busy: true, quiet: true})
}

// wantedUpload holds the only place, and another account waits for it.
func wantedUpload(t *testing.T) (u *Upload, giveUp func()) {
	t.Helper()
	s := &Service{cfg: Config{UploadMinTransferRate: 1000}, places: newGate(gateLimits{places: 1, share: 1, queue: 9, wait: time.Minute})}
	u = &Upload{service: s, scope: Scope{AccountID: uuid.New()}}
	u.haste.left = patience
	if err := s.places.enter(t.Context(), u.scope.AccountID); err != nil {
		t.Fatal(err)
	}
	other := uuid.New()
	turn, err := s.places.ask(other)
	if err != nil {
		t.Fatal(err)
	}
	return u, func() { s.places.giveUp(other, turn) }
}

// seconds lets an upload read bytes a second, for so many, and tells in which it was one
// too slow; 0 = in none.
func (u *Upload) seconds(n, bytes int) int {
	for second := 1; second <= n; second++ {
		u.haste.begin()
		if u.haste.end(bytes) != nil {
			return second
		}
		u.haste.begin()
		u.hurry(time.Second)
		if u.haste.end(0) != nil {
			return second
		}
	}
	return 0
}

func TestHasteIsAskedForWhileOthersWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(u *Upload, giveUp func()) int
		want int
	}{
		"it stands still":       {func(u *Upload, _ func()) int { return u.seconds(20, 0) }, 5},
		"it has half the rate":  {func(u *Upload, _ func()) int { return u.seconds(20, 500) }, 10},
		"it has the rate":       {func(u *Upload, _ func()) int { return u.seconds(1000, 1000) }, 0},
		"it stops after a rush": {func(u *Upload, _ func()) int { return max(u.seconds(100, 1_000_000), u.seconds(20, 0)) }, 5},
		"it rests and goes on": {func(u *Upload, _ func()) int {
			return max(u.seconds(4, 0), u.seconds(4, 10_000), u.seconds(4, 0))
		}, 0},
		"nobody waits": {func(u *Upload, giveUp func()) int { giveUp(); return u.seconds(1000, 0) }, 0},
		"somebody has waited": {func(u *Upload, giveUp func()) int {
			slow := u.seconds(4, 0)
			giveUp()
			return max(slow, u.seconds(20, 0))
		}, 0},
		"the store is slow": {func(u *Upload, _ func()) int {
			for range 100 {
				u.hurry(time.Second)
			}
			return u.seconds(4, 0)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.run(wantedUpload(t)); got != c.want {
				t.Errorf("too slow in second %d, want %d", got, c.want)
			}
		})
	}
}

func TestAReadThatStandsStillIsInterruptedUntilItEnds(t *testing.T) {
	t.Parallel()
	u, giveUp := wantedUpload(t)
	interrupted := 0
	u.Interruptible(func(why error) {
		if interrupted++; !fault.Is(why, fault.Busy) {
			t.Error(why)
		}
	})
	u.haste.begin()
	for range 5 {
		u.hurry(time.Second)
	}
	giveUp() // and what was begun is brought to its end
	u.hurry(time.Second)
	if err := u.haste.end(1); !fault.Is(err, fault.Busy) || fault.Of(err).RetryAfter <= 0 {
		t.Errorf("the read: %v", err)
	}
	u.hurry(time.Second)
	if interrupted != 2 {
		t.Errorf("%d interruptions of a read that lasted for two", interrupted)
	}
}
