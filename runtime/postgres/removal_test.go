package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// queueRemovals queues removals of an account.
func queueRemovals(t *testing.T, url string, account uuid.UUID, removals int, due time.Time) {
	t.Helper()
	statement(t, url, `INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
		SELECT $1::uuid, 'b-' || $1::uuid, '{k}', false, $3::timestamptz + n * interval '1 microsecond' FROM generate_series(1, $2::int) n`, account, removals, due)
}

func TestEnqueueRemovals_AddsATaskForEachAccountWithDueOnes(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	now := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC) // the caller's
	queueRemovals(t, url, accountOf(1), 5, now.Add(-time.Hour))
	queueRemovals(t, url, accountOf(2), 5, now.Add(time.Hour))
	queueRemovals(t, url, accountOf(3), 1, now.Add(-time.Second))
	for i, want := range []int{2, 0} {
		if added, err := store.Items.EnqueueRemovals(t.Context(), now); err != nil || added != want {
			t.Errorf("call %d added %d tasks, %v; want %d", i+1, added, err, want)
		}
	}
	claimed, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: media.RemovalWork, Limit: 10, Duration: time.Hour})
	must(t, err)
	for _, task := range claimed {
		if task.Key != task.AccountID || task.Key != accountOf(1) && task.Key != accountOf(3) {
			t.Errorf("%+v", task)
		}
	}
	// While a process works on an account, it has no other task.
	if added, err := store.Items.EnqueueRemovals(t.Context(), now); err != nil || added != 0 || len(claimed) != 2 {
		t.Errorf("%d tasks are claimed, %d added, %v", len(claimed), added, err)
	}
	if due, err := store.Items.DueRemovals(t.Context(), accountOf(1), now, 3); err != nil || len(due) != 3 || due[0].ID > due[2].ID || due[0].Bucket != "b-"+accountOf(1).String() {
		t.Errorf("%+v, %v", due, err)
	}
	if due, err := store.Items.DueRemovals(t.Context(), accountOf(2), now, 3); err != nil || len(due) != 0 {
		t.Errorf("%+v, %v", due, err)
	}
}

func TestInspectRemovals_ReportsWhatFails(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	now := time.Now()
	queueRemovals(t, url, accountOf(1), 3, now)
	queueRemovals(t, url, accountOf(2), 2, now)
	if left, err := store.Items.InspectRemovals(t.Context(), 10); err != nil || left.Pending != 5 || left.MaxAttempts != 0 || left.FailingBuckets != nil {
		t.Errorf("%+v, %v", left, err)
	}
	due, err := store.Items.DueRemovals(t.Context(), accountOf(2), now.Add(time.Second), 10)
	must(t, err)
	for range 3 {
		must(t, store.Items.FailRemovals(t.Context(), []int64{due[0].ID}, now.Add(time.Hour), "denied"))
	}
	left, err := store.Items.InspectRemovals(t.Context(), 10)
	if want := (installation.Bucket{AccountID: accountOf(2), Name: "b-" + accountOf(2).String()}); err != nil || left.Pending != 5 || left.MaxAttempts != 3 || len(left.FailingBuckets) != 1 || left.FailingBuckets[0] != want {
		t.Errorf("%+v, %v", left, err)
	}
	if due, err := store.Items.DueRemovals(t.Context(), accountOf(2), now.Add(time.Second), 10); err != nil || len(due) != 1 {
		t.Errorf("a removal that failed is due: %+v, %v", due, err)
	}
}

// noObjects is an object store in which nothing is.
type noObjects struct{}

func (noObjects) Remove(context.Context, string, []string) error        { return nil }
func (noObjects) AbortIncomplete(context.Context, string, string) error { return nil }

// ownBuckets is a guard of an installation that has all buckets.
type ownBuckets struct{}

func (ownBuckets) Beat(context.Context) error { return nil }
func (ownBuckets) Writable() error            { return nil }
func (ownBuckets) CheckBucket(context.Context, installation.Bucket) (installation.Marker, error) {
	return installation.Marker{}, nil
}

// It prints the rate of the database's part, of one account and of many, and what the table and its indexes have.
// A million removals: make test-migrations.
func TestRemovals_OfMany(t *testing.T) {
	t.Parallel()
	many := itemsOr(t, 5000)
	for name, accounts := range map[string]int{"one account": 1, "a thousand accounts": 1000} {
		t.Run(name, func(t *testing.T) {
			store, url := setup(t)
			statement(t, url, `INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
				SELECT ('01a00000-0000-7000-8000-' || lpad(to_hex(n % $2), 12, '0'))::uuid, 'media-' || n % $2,
					ARRAY['media/' || gen_random_uuid() || '/original', 'media/' || gen_random_uuid() || '/thumbnail'], false, now() - interval '1 day' + n * interval '1 millisecond' FROM generate_series(1, $1::int) n`, many, accounts)
			statement(t, url, `ANALYZE object_removal`)
			runner, err := work.NewRunner(work.Deps{Store: store.Tasks, Log: slog.New(slog.DiscardHandler)})
			must(t, err)
			remover := media.NewRemover(media.RemovalConfig{BatchSize: 50, MaxBackoff: time.Hour},
				media.RemoverDeps{Store: store.Items, Objects: noObjects{}, Guard: ownBuckets{}, Ready: func() error { return nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			must(t, runner.Register(media.RemovalWork, remover, remover.Policy()))
			sizes, indexes := `SELECT pg_relation_size('object_removal')`, `SELECT pg_indexes_size('object_removal')`
			table, index := number(t, url, sizes), number(t, url, indexes)
			began := time.Now()
			must(t, runner.Drain(t.Context(), media.RemovalWork))
			took := time.Since(began)
			t.Logf("%d removals of %s in %s: %.0f per second; table %d MiB, then %d; indexes %d MiB, then %d; %d dead rows, %d vacuums", many, name, took, float64(many)/took.Seconds(),
				table>>20, number(t, url, sizes)>>20, index>>20, number(t, url, indexes)>>20,
				number(t, url, `SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'object_removal'`), number(t, url, `SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'object_removal'`))
			if done, failed := remover.Counts(); done != many || failed != 0 {
				t.Errorf("%d are done, %d failed", done, failed)
			}
			if left := number(t, url, `SELECT (SELECT count(*) FROM object_removal) + (SELECT count(*) FROM work)`); left != 0 {
				t.Errorf("%d rows are left", left)
			}
		})
	}
}
