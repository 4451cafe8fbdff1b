package postgres_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/postgres"
)

// connectedLocks returns the locks of a process that is connected.
func connectedLocks(t *testing.T, store *postgres.Store) *postgres.UploadLocks {
	t.Helper()
	locks := store.UploadLocks(slog.New(slog.DiscardHandler))
	running, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = locks.Run(running) })
	t.Cleanup(func() { stop(); done.Wait() })
	unlock, err := locks.Lock(t.Context(), uuid.New(), func() {}, func() error { return nil })
	must(t, err)
	unlock()
	return locks
}

// Requests that lock at the same moment share queries. Each upload has one holder at a time nevertheless, and no lock is left.
func TestUploadLocks_ManyAtOnceHaveOneHolderEach(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	processes := []*postgres.UploadLocks{connectedLocks(t, store), connectedLocks(t, store)}
	const uploads, requests = 60, 20
	holders := make([]atomic.Int32, uploads)
	ids := make([]uuid.UUID, uploads)
	for i := range ids {
		ids[i] = uuid.New()
	}
	start := make(chan struct{})
	var all sync.WaitGroup
	for n := range uploads * requests {
		all.Go(func() {
			<-start
			upload := n % uploads
			unlock, err := processes[n/uploads%2].Lock(t.Context(), ids[upload], func() {}, func() error { return nil })
			if err != nil {
				t.Error(err)
				return
			}
			if holders[upload].Add(1) > 1 {
				t.Errorf("upload %d has two holders", upload)
			}
			holders[upload].Add(-1)
			unlock()
		})
	}
	close(start)
	all.Wait()
	if left := number(t, url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); left != 0 {
		t.Errorf("%d locks are left", left)
	}
}
