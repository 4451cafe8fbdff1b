package postgres_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/postgres"
)

func TestOpen_InvalidURLIsNotInError(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: "postgres://user:hunter2@host:port/db"})
	if err == nil || len(err.Error()) > 120 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// Times come from the caller's clock, here one that is far behind the server's.
func TestStore_UsesCallersClock(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	now := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
	drafts(t, url, scope, 1)
	number(t, url, `WITH aged AS (UPDATE item SET created_at = $1 RETURNING 1) SELECT count(*) FROM aged`, now.Add(-time.Hour))
	if purged, err := store.Items.PurgeDrafts(t.Context(), now, 10); err != nil || purged != 1 {
		t.Fatalf("purged %d drafts, %v", purged, err)
	}
	if due, err := store.Items.DueRemovals(t.Context(), scope.AccountID, now, 10); err != nil || len(due) != 1 {
		t.Errorf("%d removals are due, %v", len(due), err)
	}
}
