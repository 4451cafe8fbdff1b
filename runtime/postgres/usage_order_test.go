package postgres_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// Statements that change the usage of several accounts lock it in the order of the accounts, so that two of them never wait for each other in
// a circle: while the first account is locked by another, they hold the lock of no other account.
func TestUsage_OfSeveralAccountsIsLockedInTheirOrder(t *testing.T) {
	t.Parallel()
	const accounts = 16
	future := time.Now().Add(2 * time.Hour)
	noKeys := func(uuid.UUID) []string { return nil }
	drafts := func(t *testing.T, store *postgres.Store, scopes []media.Scope) (items []uploading) {
		t.Helper()
		for _, scope := range scopes {
			item := newUploading(scope, 1)
			must(t, item.open(store))
			must(t, item.commit(store))
			items = append(items, item)
		}
		return items
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, store *postgres.Store, scopes []media.Scope)
		change  func(ctx context.Context, store *postgres.Store, scopes []media.Scope) error
	}{
		"uploads open": {
			func(*testing.T, *postgres.Store, []media.Scope) {},
			func(ctx context.Context, store *postgres.Store, scopes []media.Scope) error {
				return store.Uploads.OpenTogether(ctx, scopes)
			},
		},
		"uploads end": {
			func(t *testing.T, store *postgres.Store, scopes []media.Scope) {
				for _, scope := range scopes {
					must(t, newUploading(scope, 1).open(store))
				}
			},
			func(ctx context.Context, store *postgres.Store, _ []media.Scope) error {
				_, err := store.Items.ExpireUploads(ctx, future, accounts, noKeys)
				return err
			},
		},
		"drafts are purged": {
			func(t *testing.T, store *postgres.Store, scopes []media.Scope) { drafts(t, store, scopes) },
			func(ctx context.Context, store *postgres.Store, _ []media.Scope) error {
				_, err := store.Items.PurgeDrafts(ctx, future, accounts)
				return err
			},
		},
		"deleted items end": {
			func(t *testing.T, store *postgres.Store, scopes []media.Scope) {
				for _, item := range drafts(t, store, scopes) {
					_, err := store.Items.Seal(t.Context(), item.scope, item.id, time.Now())
					must(t, err)
					_, err = store.Items.DeleteItemUndoably(t.Context(), item.scope, item.id, media.UndoWindow{From: time.Now(), Until: time.Now().Add(time.Hour)}, time.Now())
					must(t, err)
				}
			},
			func(ctx context.Context, store *postgres.Store, _ []media.Scope) error {
				_, err := store.Items.EndTombstones(ctx, future, accounts)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, url := setup(t)
			scopes := tenants(t, store, accounts, 1000)
			c.prepare(t, store, scopes)
			first := slices.MinFunc(scopes, func(a, b media.Scope) int { return bytes.Compare(a.AccountID[:], b.AccountID[:]) })
			tx, err := connect(t, url).Begin(t.Context())
			must(t, err)
			_, err = tx.Exec(t.Context(), `SELECT FROM account_usage WHERE account_id = $1 FOR UPDATE`, first.AccountID)
			must(t, err)
			done := make(chan error, 1)
			go func() { done <- c.change(context.WithoutCancel(t.Context()), store, scopes) }()
			wait.Until(t, "the statement waits for the first account", func() bool {
				return number(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
			})
			counts(t, url, accounts-1, "accounts are not locked", `SELECT count(*) FROM (SELECT FROM account_usage FOR UPDATE SKIP LOCKED) AS free`)
			must(t, tx.Rollback(t.Context()))
			must(t, wait.Receive(t, "the statement ends", done))
		})
	}
}
