package postgres_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/postgres"
)

// statement runs a statement on a connection of its own.
func statement(t *testing.T, url, text string, args ...any) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, url).Exec(t.Context(), text, args...)))
}

// A newer schema serves the programs of before, as long as it says so; a program that uses what is gone
// would fail, or misinterpret its rows.
func TestSchema_NewerIsUsedUntilItExcludesTheProgram(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	running := open(t, url)
	must(t, running.CheckSchema(t.Context()))
	logs := new(strings.Builder)
	uses := map[string]func() error{
		"a program that runs":   func() error { return running.CheckSchema(t.Context()) },
		"a program that starts": func() error { return open(t, url).CheckSchema(t.Context()) },
		"a query of a program": func() error {
			_, err := open(t, url).Accounts.FindAccount(t.Context(), "a", "b")
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			return err
		},
		"a write of a program": func() error { return touch(t, open(t, url), uuid.New(), "old") },
		"the migration of a program": func() error {
			return postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url}, slog.New(slog.NewTextHandler(logs, nil)))
		},
		"the ping of the readyz check": func() error { return open(t, url).Ping(t.Context()) },
	}
	allUse := func(when string) {
		t.Helper()
		for name, do := range uses {
			if err := do(); err != nil {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	statement(t, url, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (998, true), (999, true)")
	allUse("the schema is newer")
	if want := fmt.Sprintf("schema=999 program=%d oldest_program=25", postgres.LatestVersion()); !strings.Contains(logs.String(), want) {
		t.Errorf("the migration does not say %q: %s", want, logs)
	}

	statement(t, url, "UPDATE schema_compatibility SET oldest_program = 998")
	for name, do := range uses {
		err := do()
		if !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != fault.Schema || !strings.Contains(err.Error(), "older than the database's schema") || !strings.Contains(err.Error(), "run a newer version") ||
			!strings.Contains(err.Error(), "version 999") || !strings.Contains(err.Error(), "version 998") || !strings.Contains(err.Error(), fmt.Sprintf("up to %d", postgres.LatestVersion())) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := touch(t, running, uuid.New(), "old"); fault.ReasonOf(err) != fault.Schema {
		t.Errorf("a program that runs writes on an old connection: %v", err)
	}
	// A schema of which nobody knows who may use it is used by nobody.
	for _, text := range []string{"DELETE FROM schema_compatibility", "DROP TABLE schema_compatibility"} {
		statement(t, url, text)
		if err := open(t, url).CheckSchema(t.Context()); fault.ReasonOf(err) != fault.Schema || !strings.Contains(err.Error(), "programs that know version 999") {
			t.Errorf("%s: %v", text, err)
		}
	}
	statement(t, url, "DELETE FROM goose_db_version WHERE version_id > 900")
	allUse("the schema is that of the program")
}

// The programs of this version use a schema of before the comparison only to migrate it.
func TestSchema_OfBeforeTheComparisonIsMigrated(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyPostgres(t)
	must(t, postgres.MigrateFiles(t.Context(), postgres.Config{DatabaseURL: url}, time.Hour, migrationsWith(t, "00025", nil), slog.New(slog.DiscardHandler)))
	store := open(t, url)
	if err := store.CheckSchema(t.Context()); fault.ReasonOf(err) != fault.Schema || !strings.Contains(err.Error(), "it has version 24") {
		t.Errorf("%v", err)
	}
	migrate(t, url)
	must(t, store.CheckSchema(t.Context()))
}

// Two programs of different lines of versions would each believe that their own migrations were applied.
func TestMigrate_OfAnotherLineOfVersionsIsRejected(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	statement(t, url, "DELETE FROM goose_db_version WHERE version_id = 24")
	err := postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url}, slog.New(slog.DiscardHandler))
	if fault.ReasonOf(err) != fault.Schema || !strings.Contains(err.Error(), "00024_dominant_color.sql was not") {
		t.Errorf("%v", err)
	}
}

func TestSchema_OlderNamesBothVersionsAndTheCommand(t *testing.T) {
	t.Parallel()
	store := open(t, testenv.EmptyPostgres(t))
	err := store.CheckSchema(t.Context())
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no tables") || !strings.Contains(err.Error(), fmt.Sprintf("version %d", postgres.LatestVersion())) || !strings.Contains(err.Error(), "mediastack-runtime migrate") {
		t.Errorf("%v", err)
	}
}

// lapse ends the lease of a process, as if it had not renewed it.
const lapse = "UPDATE runtime_instance SET lease_ends = now() - interval '1 second' WHERE id = $1"

// touch renews the lease of a process.
func touch(t *testing.T, store *postgres.Store, id uuid.UUID, version string) error {
	t.Helper()
	_, err := store.Installations.TouchRuntime(t.Context(), id, version, time.Minute)
	return err
}

func TestRuntimeInstance_CountsReplicasThatWereSeen(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := open(t, url)
	serving := func(want string) {
		t.Helper()
		found, err := store.Installations.ServingRuntimes(t.Context())
		must(t, err)
		if got := fmt.Sprint(found.Replicas, found.Versions); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	serving("0 []")
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for i, id := range ids {
		must(t, touch(t, store, id, fmt.Sprintf("v%d", i/2)))
	}
	serving("3 [v0 v1]")
	must(t, store.Installations.RemoveRuntime(t.Context(), ids[0])) // it ended
	serving("2 [v0 v1]")
	statement(t, url, lapse, ids[1]) // it was killed
	serving("1 [v1]")
	must(t, touch(t, store, ids[1], "v0")) // it was only slow
	serving("2 [v0 v1]")
	statement(t, url, lapse, ids[1])
	must(t, store.Installations.RemoveDeadRuntimes(t.Context()))
	var rows int
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM runtime_instance").Scan(&rows))
	if rows != 1 {
		t.Errorf("%d rows are left", rows)
	}
}

// A heartbeat whose row is lost in a crash of the server, while its marker is not, would hold an
// installation that nobody has restored.
func TestAdvanceHeartbeat_IsDurableWhateverTheDefaultIs(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	must(t, check.ErrorOf(conn.Exec(t.Context(), "ALTER ROLE CURRENT_USER SET synchronous_commit = off")))
	must(t, conn.Close(t.Context()))
	for range 5 {
		store := open(t, url)
		before, err := store.Installations.Installation(t.Context())
		must(t, err)
		token := uuid.New()
		if advanced, err := store.Installations.AdvanceHeartbeat(t.Context(), before, token); err != nil || !advanced {
			t.Fatalf("%v, %v", advanced, err)
		}
		if advanced, err := store.Installations.AdvanceHeartbeat(t.Context(), before, uuid.New()); err != nil || advanced {
			t.Errorf("a heartbeat from an old row: %v, %v", advanced, err)
		}
		server.Kill()
		server.Start()
		after, err := open(t, url).Installations.Installation(t.Context())
		must(t, err)
		if after.Heartbeat != before.Heartbeat+1 || after.Token != token {
			t.Errorf("the heartbeat is lost: %+v", after)
		}
	}
}

func TestCell_IsFixedWhenTheSchemaIsMade(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyPostgres(t)
	config := func(n cell.Number) postgres.Config { return postgres.Config{DatabaseURL: url, Cell: n} }
	up := func(n cell.Number) error {
		return postgres.MigrateWithin(t.Context(), config(n), time.Minute, slog.New(slog.DiscardHandler))
	}
	must(t, up(12))
	must(t, up(12))
	for _, n := range []cell.Number{0, 11, cell.Max} {
		store, err := postgres.Open(t.Context(), config(n))
		must(t, err)
		t.Cleanup(store.Close)
		guard := installation.NewGuard(installation.Config{CheckInterval: time.Second, HeartbeatInterval: time.Second}, installation.Deps{Store: store.Installations, Log: slog.New(slog.DiscardHandler)})
		_ = guard.Check(t.Context())
		_, read := store.Installations.Installation(t.Context())
		for what, err := range map[string]error{"the migration": up(n), "a read of the row": read, "the guard": guard.Writable()} {
			if fault.ReasonOf(err) != fault.OtherInstallation || !strings.Contains(fault.From(err).Public, fmt.Sprintf("that of cell 12, and SERVICE_CELL is %d", n)) {
				t.Errorf("%s of cell %d: %v", what, n, err)
			}
		}
	}
	store, err := postgres.Open(t.Context(), config(12))
	must(t, err)
	t.Cleanup(store.Close)
	if state, err := store.Installations.Installation(t.Context()); err != nil || state.Cell != 12 || store.Cell() != 12 {
		t.Errorf("the row has cell %d, the store %d: %v", state.Cell, store.Cell(), err)
	}
}

// A program with another cell must not apply the migrations that are pending.
func TestCell_OfAnotherInstallationAppliesNoMigration(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	statement(t, url, "DELETE FROM goose_db_version WHERE version_id = 10") // it looks pending, and would fail
	err := postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url, Cell: 1}, slog.New(slog.DiscardHandler))
	if fault.ReasonOf(err) != fault.OtherInstallation {
		t.Errorf("%v", err)
	}
}

func TestConfig_BoundsTheCell(t *testing.T) {
	t.Parallel()
	config := postgres.Config{DatabaseConns: 8, ConnectTimeout: time.Second, IdleTimeout: time.Minute, Cell: cell.Max}
	must(t, config.Validate())
	config.Cell++
	if err := config.Validate(); err == nil || err.Error() != "SERVICE_CELL must be from 0 to 4095, not 4096" {
		t.Errorf("%v", err)
	}
}
