package rendition

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
)

// kib returns a rendition that takes so many KiB.
func kib(n int) Result { return Result{Data: make([]byte, n<<10-unstoredOverhead)} }

func refOf(n int) Ref { return Ref{ItemID: uuid.UUID{15: byte(n)}} }

// What did not fit had evicted others before that was found.
func TestUnstored_EvictsNothingForWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	one, other := uuid.UUID{1}, uuid.UUID{2}
	for name, c := range map[string]struct {
		sending, idle map[uuid.UUID]int // KiB
		size          int
		fits          bool
	}{
		"beside what the account sends":      {map[uuid.UUID]int{one: 3}, map[uuid.UUID]int{one: 4}, 6, false},
		"beside what all send":               {map[uuid.UUID]int{one: 3, other: 8}, map[uuid.UUID]int{one: 2}, 6, false},
		"larger than what an account has":    {nil, map[uuid.UUID]int{one: 4, other: 4}, 9, false},
		"in place of the account's":          {map[uuid.UUID]int{one: 3}, map[uuid.UUID]int{one: 4, other: 4}, 5, true},
		"in place of what others do not use": {map[uuid.UUID]int{other: 4}, map[uuid.UUID]int{other: 4, one: 2}, 7, true},
	} {
		u := newUnstored(16<<10, time.Now)
		for i, account := range []uuid.UUID{one, other} {
			if size := c.sending[account]; size > 0 {
				if _, ok := u.put(refOf(i), account, kib(size)); !ok {
					t.Fatal(name)
				}
			}
			if size := c.idle[account]; size > 0 {
				release, ok := u.put(refOf(10+i), account, kib(size))
				if !ok {
					t.Fatal(name)
				}
				release()
			}
		}
		before := len(u.entries)
		if _, ok := u.put(refOf(99), one, kib(c.size)); ok != c.fits {
			t.Errorf("%s: kept: %t", name, ok)
		}
		if !c.fits && len(u.entries) != before {
			t.Errorf("%s: %d of %d are left", name, len(u.entries), before)
		}
	}
}

// Whatever is put, used and released, the bounds hold and the sums are those of the entries.
func TestUnstored_CountsExactly(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	now := time.Unix(1e9, 0)
	u, random := newUnstored(limit, func() time.Time { return now }), rand.New(rand.NewPCG(1, 2))
	var releases []func()
	for range 20_000 {
		account, ref := uuid.UUID{1: byte(random.IntN(3))}, refOf(random.IntN(40))
		ref.ItemID[0] = account[1]
		switch random.IntN(4) {
		case 0:
			if release, ok := u.put(ref, account, kib(1+random.IntN(20))); ok {
				releases = append(releases, release)
			}
		case 1:
			if result, ok := u.get(ref); ok {
				releases = append(releases, result.Release)
			}
		case 2:
			if len(releases) > 0 {
				i := random.IntN(len(releases))
				releases[i]()
				releases[i] = releases[len(releases)-1]
				releases = releases[:len(releases)-1]
			}
		default:
			now = now.Add(time.Second)
		}
		var accounts int64
		for id, share := range u.accounts {
			if accounts += share.bytes; share.bytes > limit/2 || share.bytes <= 0 || share.idle < 0 || share.idle > share.bytes {
				t.Fatalf("account %s: %d bytes, %d idle", id, share.bytes, share.idle)
			}
		}
		if u.all.bytes > limit || u.all.bytes != accounts {
			t.Fatalf("%d bytes, the accounts have %d", u.all.bytes, accounts)
		}
	}
	for _, release := range releases {
		release()
	}
	var left int64
	for _, entry := range u.entries {
		left += entry.size
	}
	if u.all.bytes != left || u.all.idle != left || u.all.order.Len() != len(u.entries) {
		t.Errorf("%d bytes, %d idle, %d in the order, of %d entries with %d bytes", u.all.bytes, u.all.idle, u.all.order.Len(), len(u.entries), left)
	}
}
