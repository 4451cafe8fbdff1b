package media_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// raced is what five operations on one item at the same time were answered.
type raced struct {
	sealed, deleted, restored bool
	// evicted: an upload that needs the room of the item was accepted.
	purged, evicted bool
	// left: the item has a row at the end. found: it can be read.
	left, found bool
}

// winner returns who decided first what becomes of the item. It is empty if the answers contradict each other, or
// what is left of the item: what follows must be possible after the winner only.
func (r raced) winner(draft, permanent bool) string {
	gone := !r.left
	var winner string
	var agrees bool
	switch {
	case draft && r.sealed && !r.deleted:
		winner, agrees = "seal", r.found && !r.purged && !r.evicted
	case draft && r.sealed && permanent: // and then deleted
		winner, agrees = "seal", gone && !r.purged
	case draft && r.sealed: // and then deleted, and perhaps restored, or ended by the upload
		winner, agrees = "seal", !r.purged && gone == r.evicted
	case draft && r.deleted:
		winner, agrees = "delete", gone && !r.purged
	case draft:
		winner, agrees = "purge", gone && r.purged
	case r.restored && !r.deleted:
		winner, agrees = "restore", r.found && !r.purged && !r.evicted
	case r.restored && permanent: // and then deleted
		winner, agrees = "restore", gone && !r.purged
	case r.restored: // and then deleted again, and perhaps ended
		winner, agrees = "restore", gone == (r.purged || r.evicted)
	case r.deleted:
		winner, agrees = "delete", permanent && gone && !r.sealed && !r.purged
	case r.purged:
		winner, agrees = "purge", gone && !r.sealed
	default:
		winner, agrees = "evict", gone && !r.sealed && r.evicted
	}
	if !agrees {
		return ""
	}
	return winner
}

// A seal, a delete, a restore, the purge and an upload that needs its room race on one item, from two replicas and
// the purge: exactly one decides what becomes of it, and what the others are answered agrees with that. The bytes
// are exact after each race.
func TestUndo_OneItemHasOneWinner(t *testing.T) {
	t.Parallel()
	const size, rounds, passes, maxPasses = 1000, 5, 4, 40
	b := setup(t)
	replicas := b.Replicas()
	purge := b.Open()
	wins := map[string]int{}
	// never returns who has not won yet. A busy machine gives some contenders few chances: the passes go
	// on until each has won.
	never := func() []string {
		return slices.DeleteFunc([]string{"seal", "delete", "restore", "purge", "evict"}, func(one string) bool { return wins[one] > 0 })
	}
	pass := func(n int, name string, draft, permanent bool) {
		t.Helper()
		for round := n * rounds; round < (n+1)*rounds; round++ {
			p := b.UndoTenant(size*3/2, account.UndoEveryone)
			data := random(size)
			item := b.Upload(p, data, media.Fields{Group: "g"})
			if !draft {
				sealed, err := b.Items.Seal(t.Context(), p, item.ID)
				must(t, err)
				item = sealed
				_, err = b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
				must(t, err)
			}
			created := b.Clock.Now()
			b.Clock.Advance(time.Hour)
			var got raced
			contenders := []func() error{
				func() error {
					sealed, err := replicas[round%2].Items.Seal(t.Context(), p, item.ID)
					if got.sealed = err == nil; got.sealed && !draft && !sealed.SealedAt.Equal(*item.SealedAt) {
						t.Errorf("%s: it was sealed at %s, and at %s", name, item.SealedAt, sealed.SealedAt)
					}
					return err
				},
				func() error {
					_, err := replicas[(round+1)%2].Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{Permanent: permanent})
					got.deleted = err == nil
					return err
				},
				func() error {
					_, err := replicas[round%2].Items.Restore(t.Context(), p, item.ID)
					got.restored = err == nil && !draft
					return err
				},
				func() error {
					end, cutoff := purge.Items.EndTombstones, b.Clock.Now().Add(48*time.Hour)
					if draft {
						end, cutoff = purge.Items.PurgeDrafts, created.Add(time.Minute)
					}
					n, err := end(t.Context(), cutoff, 10)
					if got.purged = n == 1; n > 1 {
						t.Errorf("%s: the purge ended %d items", name, n)
					}
					return err
				},
				func() (err error) {
					_, err = uploadFile(t.Context(), replicas[(round+1)%2].Uploads, p, bytes.NewReader(make([]byte, size)), media.Fields{})
					if got.evicted = err == nil; fault.Is(err, fault.QuotaExceeded) {
						return nil
					}
					return err
				},
			}
			race(t, contenders, round%len(contenders))
			got.left = b.Number(`SELECT count(*) FROM stored_item WHERE id = $1`, item.ID) == 1
			read, err := b.Items.Get(t.Context(), p, item.ID)
			if got.found = err == nil; got.found && !bytes.Equal(b.BytesOf(p, read.File()), data) {
				t.Errorf("%s: the item has other bytes", name)
			}
			winner := got.winner(draft, permanent)
			if wins[winner]++; winner == "" {
				t.Errorf("%s: no single winner: %+v", name, got)
			}
			if held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held > p.Account.MaxStorage {
				t.Errorf("%s: the account uses %d bytes of %d", name, held, p.Account.MaxStorage)
			}
			b.Clock.Advance(49 * time.Hour) // what the purge has ended is due then, and the next race has it for itself
			b.RemoveEnded()
			b.Balanced(p)
		}
	}
	for n := 0; n < passes || n < maxPasses && len(never()) > 0; n++ {
		pass(n, "a deleted item, deleted again", false, false)
		pass(n, "a deleted item, deleted for good", false, true)
		pass(n, "a draft", true, false)
		pass(n, "a draft, deleted for good", true, true)
	}
	t.Logf("winners: %v", wins)
	if missing := never(); len(missing) > 0 {
		t.Errorf("%v never win: this is no race", missing)
	}
}

// race runs all contenders at once, one of them a little earlier. An item that is gone is no error.
func race(t *testing.T, contenders []func() error, first int) {
	t.Helper()
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, contend := range contenders {
		all.Go(func() {
			if i != first {
				<-start
			}
			if err := contend(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%v", err)
			}
		})
	}
	time.AfterFunc(2*time.Millisecond, func() { close(start) })
	all.Wait()
}
