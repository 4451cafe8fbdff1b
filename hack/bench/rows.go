package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	pgstore "mediastack.dev/runtime/postgres"
)

// itemsOfAccount is how many items each account has. They are loaded in turn: each new item goes to
// another place of every index.
const itemsOfAccount = 1000

// maxChanges bounds how many items are uploaded, sealed and deleted to measure the log.
const maxChanges = 2000

// rows measures what items take in PostgreSQL: bytes of the table and of each index, bytes of the
// write-ahead log for each change, and the time of vacuum, dump and restore.
func rows(ctx context.Context, b *bench) error {
	scopes, store, err := b.rowScopes(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	started := time.Now()
	if err := seedRows(ctx, conn, scopes, b.Items); err != nil {
		return err
	}
	b.say("%s: %d items of %d accounts loaded in %s", b.name, b.Items, len(scopes), time.Since(started).Round(time.Second))
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	if err := b.sizes(ctx, conn); err != nil {
		return err
	}
	if err := b.logOfChanges(ctx, conn, store, scopes); err != nil {
		return err
	}
	return b.maintenance(ctx, conn, scopes)
}

// rowScopes makes the accounts, past the object store: no file is stored.
func (b *bench) rowScopes(ctx context.Context) ([]media.Scope, *pgstore.Store, error) {
	if _, err := b.env.tenant(ctx, "first"); err != nil {
		return nil, nil, err
	}
	store, err := pgstore.Open(ctx, pgstore.Config{DatabaseURL: b.env.server.URL(database)})
	if err != nil {
		return nil, nil, err
	}
	registry := account.NewRegistry(store, "rows", time.Now)
	var scopes []media.Scope
	for n := range max(2, b.Items/itemsOfAccount) {
		made, err := registry.Ensure(ctx, account.Spec{Namespace: "bench", Name: fmt.Sprintf("a%d", n), MaxStorage: 1 << 50, MaxUploadSize: 1 << 40})
		if err != nil {
			return nil, nil, err
		}
		apps, _, err := registry.OpenApps(ctx, made.ID, nil)
		if err != nil {
			return nil, nil, err
		}
		scopes = append(scopes, media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket})
	}
	return scopes, store, nil
}

// seedRows loads sealed items of the accounts in turn, in the order of time.
func seedRows(ctx context.Context, conn *pgx.Conn, scopes []media.Scope, items int) error {
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica"); err != nil {
		return err
	}
	s, n, now := seed{items: items, groups: scaleGroups}, 0, time.Now()
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"stored_item"},
		[]string{"id", "account_id", "app_id", "file_name", "access", "caption", "group_label", "objects", "bytes", "created_at", "sealed_at"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n == items {
				return nil, nil
			}
			at, scope := s.at(n, now), scopes[n%len(scopes)]
			id := idAt(at, n)
			objects, bytes := photo(id)
			row := []any{id, scope.AccountID, scope.AppID, fmt.Sprintf("IMG_%07d.jpg", n), string(third(n)), "", s.group(n / len(scopes)), objects, bytes, at, at}
			n++
			return row, nil
		}))
	return err
}

// sizes prints the bytes of an item in the table and in each index.
func (b *bench) sizes(ctx context.Context, conn *pgx.Conn) error {
	found, err := conn.Query(ctx, `SELECT 'item' AS part, pg_table_size('stored_item') AS bytes UNION ALL
		SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index WHERE indrelid = 'stored_item'::regclass ORDER BY bytes DESC`)
	if err != nil {
		return err
	}
	type part struct {
		Part  string
		Bytes int64
	}
	parts, err := pgx.CollectRows(found, pgx.RowToStructByPos[part])
	if err != nil {
		return err
	}
	t, all := table{{"part", "bytes per item"}}, int64(0)
	for _, p := range parts {
		t.row(p.Part, number(float64(p.Bytes)/float64(b.Items)))
		all += p.Bytes
	}
	t.row("all", number(float64(all)/float64(b.Items)))
	b.add(result{Benchmark: b.name, Case: "item with three objects", Figure: "bytes in PostgreSQL", Target: maximum(1500)}, float64(all)/float64(b.Items))
	t.print(b.out)
	return nil
}

// logOfChanges measures the write-ahead log of an upload, a seal and a delete, each of another
// account: right after a checkpoint, when the first change of each page logs the whole page, and
// again, when the pages were changed since.
func (b *bench) logOfChanges(ctx context.Context, conn *pgx.Conn, store *pgstore.Store, scopes []media.Scope) error {
	t := table{{"bytes of log per item", "upload", "seal", "delete"}}
	for _, pass := range []string{"after a checkpoint", "without one"} {
		if pass == "after a checkpoint" {
			if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
				return err
			}
		}
		ids := make([]uuid.UUID, min(b.Items/2, maxChanges))
		row := []string{pass}
		for _, change := range []func(n int, scope media.Scope) error{
			func(n int, scope media.Scope) error {
				id, err := store.Cell().NewID()
				if err != nil {
					return err
				}
				ids[n] = id
				objects, bytes := media.Objects{{Variant: media.Original, Key: media.ObjectKey(id, media.Original), Bytes: 1000, MimeType: "image/jpeg"}}, int64(1000)
				if err := store.OpenUpload(ctx, id, scope, bytes, time.Now().Add(time.Hour)); err != nil {
					return err
				}
				return store.CommitUpload(ctx, media.Item{ID: id, AccountID: scope.AccountID, AppID: scope.AppID, FileName: "a.jpg", Access: media.Private, Group: groupName(n % scaleGroups), Objects: objects, CreatedAt: time.Now()})
			},
			func(n int, scope media.Scope) error { _, err := store.Seal(ctx, scope, ids[n], time.Now()); return err },
			func(n int, scope media.Scope) error {
				_, err := store.DeleteItem(ctx, scope, ids[n], time.Now().Add(time.Hour))
				return err
			},
		} {
			bytes, err := logged(ctx, conn, func() error {
				for n := range ids {
					if err := change(n, scopes[n*7919%len(scopes)]); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			row = append(row, number(float64(bytes)/float64(len(ids))))
		}
		t.row(row...)
	}
	t.print(b.out)
	return dropRemovals(ctx, conn, scopes)
}

// dropRemovals deletes the queued removals of the items that were deleted: they have no objects, and
// the benchmark of the purge counts what is queued.
func dropRemovals(ctx context.Context, conn *pgx.Conn, scopes []media.Scope) error {
	var accounts []uuid.UUID
	for _, scope := range scopes {
		accounts = append(accounts, scope.AccountID)
	}
	_, err := conn.Exec(ctx, "DELETE FROM object_removal WHERE account_id = ANY ($1)", accounts)
	return err
}

// logged returns how many bytes of write-ahead log something wrote.
func logged(ctx context.Context, conn *pgx.Conn, do func() error) (bytes int64, err error) {
	var before string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&before); err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::bigint", before).Scan(&bytes)
	return bytes, err
}

// maintenance measures vacuum, dump and restore.
func (b *bench) maintenance(ctx context.Context, conn *pgx.Conn, scopes []media.Scope) error {
	const deletedAccounts = 20 // one in so many
	for n := 0; n < len(scopes); n += deletedAccounts {
		if _, err := conn.Exec(ctx, "DELETE FROM item WHERE account_id = $1", scopes[n].AccountID); err != nil {
			return err
		}
	}
	bin, err := setup.FindPostgres()
	if err != nil {
		return err
	}
	dump := filepath.Join(b.env.dir, "item.dump")
	run := func(program string, args ...string) func() error {
		return func() error { _, err := tool(ctx, filepath.Join(bin, program), args...); return err }
	}
	t := table{{"step", "seconds", "seconds per million items"}}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"vacuum after the items of 1 account in 20 were deleted", func() error { _, err := conn.Exec(ctx, "VACUUM stored_item"); return err }},
		{"vacuum again, with nothing to do", func() error { _, err := conn.Exec(ctx, "VACUUM stored_item"); return err }},
		{"vacuum of all pages (VACUUM FREEZE)", func() error {
			_, err := conn.Exec(ctx, "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) stored_item")
			return err
		}},
		{"pg_dump -Fc -Z1", run("pg_dump", "-Fc", "-Z1", "-t", "stored_item", "-f", dump, b.env.server.AdminURL(database))},
		{"pg_restore of rows and indexes", func() error {
			if err := b.env.server.CreateDatabase(ctx, "restored"); err != nil {
				return err
			}
			// The reference to app cannot be made there, so that the program exits with 1.
			failed := run("pg_restore", "--no-owner", "-d", b.env.server.AdminURL("restored"), dump)()
			var indexes int
			restored, err := pgx.Connect(ctx, b.env.server.AdminURL("restored"))
			if err != nil {
				return err
			}
			defer restored.Close(context.WithoutCancel(ctx))
			if err := restored.QueryRow(ctx, "SELECT count(*) FROM pg_index WHERE indrelid = 'stored_item'::regclass AND indisvalid").Scan(&indexes); err != nil || indexes < 5 {
				return errors.Join(failed, err, fmt.Errorf("%d indexes were restored", indexes))
			}
			return nil
		}},
	} {
		started := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		seconds := time.Since(started).Seconds()
		t.row(step.name, number(seconds), number(seconds/float64(b.Items)*1e6))
		b.say("%s: %s: %s s", b.name, step.name, number(seconds))
	}
	t.print(b.out)
	return nil
}
