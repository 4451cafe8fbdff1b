package postgres_test

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// logBuffer is a log that is read while it is written.
type logBuffer = check.Buffer

// madeOnItems finds the indexes of items that a migration makes without a lock.
var madeOnItems = regexp.MustCompile(`(?m)^CREATE INDEX CONCURRENTLY \w+ ON stored_item `)

// migrationsWith returns the migrations up to a version, and others.
func migrationsWith(t *testing.T, newest string, more map[string]string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range migrationNames(t) {
		if name < newest {
			text, err := os.ReadFile("migrations/" + name)
			must(t, err)
			files[name] = &fstest.MapFile{Data: text}
		}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// migrationNames returns the files of the migrations in their order.
func migrationNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("migrations")
	must(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// migrating applies migrations at the same time as the test goes on.
func migrating(t *testing.T, url string, files fs.FS) (logs *logBuffer, ended chan error) {
	t.Helper()
	logs, ended = &logBuffer{}, make(chan error, 1)
	go func() {
		ended <- postgres.MigrateFiles(t.Context(), postgres.Config{DatabaseURL: url, MigrationLockTimeout: 50 * time.Millisecond}, time.Hour, files, slog.New(slog.NewTextHandler(logs, nil)))
	}()
	return logs, ended
}

// begun opens a transaction that has read the items.
func begun(t *testing.T, url string) pgx.Tx {
	t.Helper()
	conn := connect(t, url)
	must(t, check.ErrorOf(conn.Exec(t.Context(), "SET application_name = 'a long report'")))
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), "SELECT count(*) FROM stored_item")))
	return tx
}

// A migration that waits for a long transaction once had all requests wait behind it.
func TestMigrate_HoldsNobodyUpBehindALongTransaction(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	long := begun(t, url)
	logs, ended := migrating(t, url, migrationsWith(t, "9", map[string]string{"90001_column.sql": "-- +goose Up\nALTER TABLE stored_item ADD COLUMN added_later text;\n"}))
	wait.Until(t, "the migration gives up waiting for the lock, and says for whom it waited", func() bool {
		must(t, check.ErrorOf(store.Items.ListItems(t.Context(), scope, media.Filter{}, 10, 0)))
		return strings.Contains(logs.String(), "90001_column.sql did not get a lock in time: the oldest transaction is that of the process") && strings.Contains(logs.String(), "a long report")
	})
	for range 100 { // through more attempts
		must(t, check.ErrorOf(store.Items.ListItems(t.Context(), scope, media.Filter{}, 10, 0)))
	}
	must(t, long.Commit(t.Context()))
	must(t, wait.Receive(t, "the migration ends", ended))
	if n := number(t, url, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'stored_item'::regclass AND attname = 'added_later'"); n != 1 {
		t.Error("the column is missing")
	}
}

// An index that is made concurrently waits for the transactions of others, and locks nobody out. To end that after the lock timeout
// would mean to begin again, with all rows.
func TestMigrate_WaitsForTransactionsWithAConcurrentIndex(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	long := begun(t, url)
	logs, ended := migrating(t, url, migrationsWith(t, "9", map[string]string{
		"90001_index.sql": "-- +goose NO TRANSACTION\n-- +goose Up\nDROP INDEX CONCURRENTLY IF EXISTS later;\nCREATE INDEX CONCURRENTLY later ON stored_item (bytes);\n"}))
	wait.Until(t, "the index waits for the transaction", func() bool {
		return number(t, url, "SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database() AND lockers_total > 0 AND current_locker_pid <> 0") == 1
	})
	for range 100 { // longer than the lock timeout
		must(t, check.ErrorOf(store.Items.ListItems(t.Context(), scope, media.Filter{}, 10, 0)))
	}
	must(t, long.Commit(t.Context()))
	must(t, wait.Receive(t, "the migration ends", ended))
	if strings.Contains(logs.String(), "did not get a lock") {
		t.Errorf("the index was begun again: %s", logs)
	}
	if n := number(t, url, "SELECT count(*) FROM pg_index WHERE indexrelid = 'later'::regclass AND indisvalid"); n != 1 {
		t.Error("the index is not valid")
	}
}

// The migrations since the schema says who may use it neither read nor rewrite a table that they lock, however many rows it has,
// and clients work meanwhile.
func TestMigrate_ReadsAndRewritesNoTable(t *testing.T) {
	t.Parallel()
	manyItems := itemsOr(t, 20_000) // the rows that a migration meets
	url := testenv.EmptyPostgres(t)
	apply := func(files fs.FS) {
		t.Helper()
		must(t, postgres.MigrateFiles(t.Context(), postgres.Config{DatabaseURL: url}, time.Hour, files, slog.New(slog.DiscardHandler)))
	}
	apply(migrationsWith(t, "00025", nil))
	store := open(t, url)
	scope := media.Scope{AccountID: uuid.New(), AppID: uuid.New()} // made as a program of before does
	statement(t, url, `WITH made AS (
			INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended)
			VALUES ($1, 'n', 'a', 'u', 'o', '', '{}', 1000000000, 1000, 'b', false) RETURNING id)
		INSERT INTO app (id, account_id, name) SELECT $2, id, 'default' FROM made`, scope.AccountID, scope.AppID)
	conn := connect(t, url)
	seedItemRows(t, conn, scope, "01900000-0000-7000-8000-", manyItems, "private", "", true)
	exec(t, url, "ALTER TABLE stored_item SET (autovacuum_enabled = false)")
	files := func() map[string]int64 {
		rows, err := conn.Query(t.Context(), `SELECT relname, relfilenode::bigint FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')`)
		must(t, err)
		of, name, file := map[string]int64{}, "", int64(0)
		must(t, check.ErrorOf(pgx.ForEachRow(rows, []any{&name, &file}, func() error { of[name] = file; return nil })))
		return of
	}
	// rewritten returns the tables and indexes of before that have other files. New ones are what migrations are for, and what they drop is
	// checked by their rules.
	rewritten := func(before map[string]int64) (names []string) {
		after := files()
		for name, file := range before {
			if now, found := after[name]; found && now != file {
				names = append(names, name)
			}
		}
		return names
	}
	read := func() int64 {
		return number(t, url, "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'stored_item'")
	}

	filesBefore, readBefore := files(), read()
	ended := make(chan struct{})
	var clients sync.WaitGroup
	var requests, longest atomic.Int64 // of the clients, since the last migration
	for range 2 {
		client := connect(t, url)
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				began := time.Now()
				// As programs of before do: those of today may read columns that are not there yet.
				if _, err := client.Exec(t.Context(), "SELECT id, file_name FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id DESC LIMIT 10 OFFSET $2", scope.AppID, n); err != nil {
					t.Error(err)
				}
				if err := touch(t, store, uuid.New(), "old"); err != nil {
					t.Error(err)
				}
				took := int64(time.Since(began))
				for before := longest.Load(); before < took && !longest.CompareAndSwap(before, took); before = longest.Load() {
				}
				requests.Add(1)
			}
		})
	}
	stop := sync.OnceFunc(func() { close(ended); clients.Wait() })
	t.Cleanup(stop) // before their connections end, also if the test fails
	for _, name := range migrationNames(t) {
		if name < "00025" {
			continue
		}
		proceed := func() {
			before := requests.Load()
			wait.Until(t, "clients go on", func() bool { return requests.Load() >= before+4 }) // those that had begun, and others
		}
		proceed()
		longest.Store(0)
		logs := &logBuffer{}
		must(t, postgres.MigrateFiles(t.Context(), postgres.Config{DatabaseURL: url}, time.Hour, migrationsWith(t, name+"~", nil), slog.New(slog.NewJSONHandler(logs, nil))))
		var applied struct {
			File     string
			Duration time.Duration
		}
		lines := strings.Split(strings.TrimSpace(logs.String()), "\n") // it may have waited for a client before
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &applied); err != nil || applied.File != name {
			t.Fatalf("%s: %v: %s", name, err, logs)
		}
		proceed()
		// A transaction holds no lock longer than it lasts.
		t.Logf("%d rows: %s took %s, and requests up to %s", manyItems, name, applied.Duration, time.Duration(longest.Load()))
	}
	// An index that is made concurrently reads the table twice, and nobody waits for that.
	built := 0
	for _, name := range migrationNames(t) {
		text, err := os.ReadFile("migrations/" + name)
		must(t, err)
		if name >= "00025" {
			built += len(madeOnItems.FindAll(text, -1))
		}
	}
	stop()
	if names := rewritten(filesBefore); names != nil {
		t.Errorf("tables or indexes were rewritten: %s", names)
	}
	if after := read(); after-readBefore >= int64((1+2*built)*manyItems) {
		t.Errorf("%d rows were read, and %d indexes made", after-readBefore, built)
	}

	// What the test would notice.
	readBefore = read()
	apply(migrationsWith(t, "9", map[string]string{"90001_check.sql": "-- +goose Up\nALTER TABLE stored_item ADD CONSTRAINT later CHECK (bytes >= 0);\n"}))
	wait.Until(t, "a constraint that reads all rows is noticed", func() bool { return read()-readBefore >= int64(manyItems) })
	filesBefore = files()
	apply(migrationsWith(t, "9", map[string]string{"90001_check.sql": "-- +goose Up\n", "90002_rewrite.sql": "-- +goose Up\nALTER TABLE stored_item ADD COLUMN later uuid DEFAULT gen_random_uuid();\n"}))
	if rewritten(filesBefore) == nil {
		t.Error("a table that is rewritten is not noticed")
	}
}
