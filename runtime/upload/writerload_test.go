package upload_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// fullEnv makes the test of rejected uploads ten times larger (make test-requests).
const fullEnv = "MEDIASTACK_TEST_FULL"

// ticking returns a clock that advances by more than a full account is remembered each time that it is asked, so that each upload is
// stored before it is rejected.
func ticking() func() time.Time {
	start := time.Now().AddDate(-1, 0, 0)
	var asked atomic.Int64
	return func() time.Time { return start.Add(time.Duration(asked.Add(1)) * 61 * time.Second) }
}

// acknowledged has the items whose uploads were acknowledged, and that were not deleted.
type acknowledged struct {
	mu    sync.Mutex
	items map[uuid.UUID]bool
}

func (a *acknowledged) set(id uuid.UUID, there bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.items[id] = there; !there {
		delete(a.items, id)
	}
}

// are checks that exactly these items are there, with their objects, and that their bytes are used.
func (a *acknowledged) are(b *harness, of account.Principal, size int64) {
	b.T.Helper()
	found := map[uuid.UUID]bool{}
	for _, key := range b.keys(of) {
		found[itemOf(b.T, key)] = true
	}
	if !maps.Equal(found, a.items) {
		b.T.Errorf("the bucket has the objects of %d items, %d were acknowledged", len(found), len(a.items))
	}
	b.Counts(int64(len(a.items))*size, "bytes are used", `SELECT bytes FROM account_usage WHERE account_id = $1`, of.Account.ID)
	b.Balanced(of)
}

// sealed seals an item, so that the purge keeps it.
func (p *process) sealed(of account.Principal, item media.Item, in *acknowledged) {
	if _, err := p.Items.Seal(p.b.T.Context(), of, item.ID); err != nil {
		p.b.T.Errorf("a seal: %v", err)
	}
	in.set(item.ID, true)
}

// Uploads that the cap rejects, and uploads whose key ends while they run, are stored before they are rejected. Nothing of them is left,
// nothing of others is gone, and what is used stays exact.
func TestRejectedUploads_LeaveNothingAndTakeNothing(t *testing.T) {
	t.Parallel()
	const clients, size, fit = 64, 100, 20
	rejections, keys := int64(1000), 5
	if os.Getenv(fullEnv) != "" {
		rejections, keys = 10_000, 50
	}
	b := setup(t)
	p, q := b.Tenant(fit*size+size/2), b.Tenant(1<<30)
	replicas := []*process{b.process(at(ticking())), b.process(at(ticking()))}
	ofP, ofQ := &acknowledged{items: map[uuid.UUID]bool{}}, &acknowledged{items: map[uuid.UUID]bool{}}
	var rejected, ended atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			replica := replicas[client%2]
			var own []uuid.UUID
			for n := 1; rejected.Load() < rejections; n++ {
				if n%16 == 0 && len(own) > 0 { // room for others
					ofP.set(own[0], false)
					if err := deleteItem(t.Context(), replica.Items, p, own[0]); err != nil {
						t.Errorf("a delete: %v", err)
					}
					own = own[1:]
				}
				item, err := replica.upload(p, size)
				switch {
				case err == nil:
					replica.sealed(p, item, ofP)
					own = append(own, item.ID)
				case fault.Is(err, fault.QuotaExceeded):
					rejected.Add(1)
				default:
					t.Errorf("an upload of a full account: %v", err)
				}
			}
		})
	}
	all.Go(func() {
		for range keys {
			q.Key.ID = b.endKey(t, replicas, q, ofQ, &ended)
		}
	})
	all.Wait()
	if stored := replicas[0].objects.stored.Load() + replicas[1].objects.stored.Load(); stored < rejected.Load()+ended.Load() {
		t.Errorf("%d objects were stored, of %d uploads that the cap rejected and %d whose key ended", stored, rejected.Load(), ended.Load())
	}
	b.RemoveEnded()
	if ofP.are(b, p, size); len(ofP.items) > fit {
		t.Errorf("%d items are there, and the cap has room for %d", len(ofP.items), fit)
	}
	ofQ.are(b, q, size)
	for _, replica := range replicas {
		replica.settle(true)
	}
	if b.registered(p) != 0 || b.registered(q) != 0 {
		t.Errorf("%d and %d writers are registered", b.registered(p), b.registered(q))
	}
	t.Logf("%d uploads were rejected at the cap, and %d by their key; %d and %d items are there", rejected.Load(), ended.Load(), len(ofP.items), len(ofQ.items))
}

// endKey ends the key of a principal when uploads have arrived, beside others that do not depend on it. It returns the next key.
func (b *harness) endKey(t *testing.T, replicas []*process, of account.Principal, in *acknowledged, ended *atomic.Int64) uuid.UUID {
	const uploads, withoutKey = 24, 4 // there are 32 slots, of which others need some
	arrived := make([]*upload.Single, uploads)
	for i := range arrived {
		u, err := replicas[i%2].Uploads.Begin(t.Context(), of, 0)
		if err != nil {
			t.Errorf("an upload: %v", err)
			return uuid.Nil
		}
		defer u.Close(t.Context())
		if i >= withoutKey {
			u.CheckAtCommit(of.Key.ID, func() error { return nil })
		}
		if err := u.Receive(t.Context(), bytes.NewReader(random(100)), ""); err != nil {
			t.Errorf("an upload: %v", err)
		}
		arrived[i] = u
	}
	_, next, err := b.Registry.IssueKey(t.Context(), of.App.ID, 1, 0)
	if err != nil {
		t.Errorf("a key: %v", err)
	}
	var all sync.WaitGroup
	for i, u := range arrived {
		all.Go(func() {
			item, err := u.Commit(t.Context(), media.Fields{})
			switch {
			case i < withoutKey && err == nil:
				replicas[i%2].sealed(of, item, in)
			case i >= withoutKey && errors.Is(err, upload.ErrKeyEnded) && fault.Is(err, fault.Unauthenticated):
				ended.Add(1)
			default:
				t.Errorf("upload %d, after its key has ended: %v", i, err)
			}
			u.Close(t.Context())
		})
	}
	all.Wait()
	return next.ID
}
