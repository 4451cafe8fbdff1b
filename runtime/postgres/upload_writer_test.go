package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// A plan for each call takes longer than the statement of a small upload.
func TestCommitStored_IsPlannedOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := open(t, url)
	scope := tenants(t, store, 1, 1<<20)[0]
	own := uuid.New()
	must(t, check.ErrorOf(store.Installations.TouchRuntime(t.Context(), own, "test", time.Hour)))
	writer, err := store.Uploads.RegisterWriter(t.Context(), scope.AccountID, scope.Bucket, uuid.Nil)
	must(t, err)
	conn := connect(t, url)
	const calls = 20
	for range calls {
		id := uuid.New()
		made, err := sqlgen.New(conn).CommitStored(t.Context(), sqlgen.CommitStoredParams{LockTimeout: "0", Own: own, Writers: []int64{writer.Number}, Fences: []int64{0}, KeyIds: []uuid.UUID{uuid.Nil},
			AccountIds: []uuid.UUID{scope.AccountID}, AppIds: []uuid.UUID{scope.AppID}, Ids: []uuid.UUID{id}, FileNames: []string{"a"}, Accesses: []string{"private"}, Captions: []string{""}, Groups: []string{""},
			Objects: []string{"[]"}, Bytes: []int64{1}, CreatedAt: []time.Time{time.Now()}, Metadata: []string{"{}"}, Widths: []int32{0}, Heights: []int32{0}, Placeholders: [][]byte{nil},
			DominantColors: []string{""}, Refs: []string{""}, Durations: []int64{0}, Pages: []int32{0}})
		if must(t, err); len(made) != 1 || made[0] != id {
			t.Fatalf("%v were made, want %s", made, id)
		}
	}
	var kept, made int64
	must(t, conn.QueryRow(t.Context(), `SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '-- name: CommitStored%'`).Scan(&kept, &made))
	if kept+made != calls || made > 6 { // PostgreSQL compares the plan with those of five calls
		t.Errorf("%d calls had a plan of their own, %d the one that is kept", made, kept)
	}
}
