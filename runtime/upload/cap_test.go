package upload_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Invariant 5: the cap is exact under any concurrency.
func TestCap_IsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	const room, uploads, workers = 50_000, 400, 16
	b := setup(t)
	p := b.Tenant(room)
	replicas := b.Replicas()
	sizes := rand.New(rand.NewPCG(1, 2))
	jobs := make(chan int, uploads)
	for range uploads {
		jobs <- 1 + sizes.IntN(1500)
	}
	close(jobs)
	var stored, smallestRejected atomic.Int64
	smallestRejected.Store(1 << 30)
	watching := make(chan struct{})
	watched := make(chan struct{})
	go func() { // the cap is never exceeded
		defer close(watched)
		for {
			select {
			case <-watching:
				return
			default:
				if held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held > room {
					t.Errorf("the account uses %d bytes of %d", held, room)
				}
			}
		}
	}()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for size := range jobs {
				_, err := uploadFile(t.Context(), replicas[w%2].Uploads, p, bytes.NewReader(make([]byte, size)), media.Fields{})
				switch {
				case err == nil:
					stored.Add(int64(size))
				case fault.Is(err, fault.QuotaExceeded):
					for low := smallestRejected.Load(); int64(size) < low && !smallestRejected.CompareAndSwap(low, int64(size)); low = smallestRejected.Load() {
					}
				default:
					t.Errorf("an upload failed: %v", err)
				}
			}
		})
	}
	all.Wait()
	close(watching)
	<-watched
	b.Balanced(p)
	held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	if held != stored.Load() || held > room {
		t.Errorf("%d bytes are used, %d were stored, the cap is %d", held, stored.Load(), room)
	}
	// With no upload running, exactly the remaining bytes fit, and not a byte more.
	if _, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(make([]byte, room-held+1)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("one byte over the cap: %v", err)
	}
	b.Upload(p, make([]byte, room-held), media.Fields{})
}

func TestLoweredCap_RejectsUploadsAndKeepsItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(10_000)
	data := random(5000)
	item := b.Sealed(p, data, media.Fields{})
	must(t, check.ErrorOf(b.Registry.Ensure(t.Context(), account.Spec{Namespace: p.Account.Namespace, Name: p.Account.Name, MaxStorage: 1000, MaxUploadSize: 1000})))
	if _, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(random(1)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("an upload under a lowered cap: %v", err)
	}
	if got := b.BytesOf(p, item.File()); !bytes.Equal(got, data) {
		t.Error("the item has changed")
	}
	must(t, deleteItem(t.Context(), b.Items, p, item.ID))
	b.Upload(p, random(1), media.Fields{})
	b.Balanced(p)
}
