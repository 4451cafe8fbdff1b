package postgres_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

func TestConfigValidate_RejectsInvalidValues(t *testing.T) {
	t.Parallel()
	valid := postgres.Config{DatabaseURL: "postgres://h/d", DatabaseConns: 8, ConnectTimeout: 5 * time.Second, IdleTimeout: time.Minute, RetryTimeout: 5 * time.Second}
	must(t, valid.Validate())
	for want, change := range map[string]func(*postgres.Config){
		"SERVICE_DATABASE_MAX_CONNS must be from 1 to 1000, not 0":             func(c *postgres.Config) { c.DatabaseConns = 0 },
		"SERVICE_DATABASE_MAX_CONNS must be from 1 to 1000, not 1001":          func(c *postgres.Config) { c.DatabaseConns = 1001 },
		"SERVICE_DATABASE_CONNECT_TIMEOUT must be from 100ms to 1m0s, not 0s":  func(c *postgres.Config) { c.ConnectTimeout = 0 },
		"SERVICE_DATABASE_CONNECT_TIMEOUT must be from 100ms to 1m0s, not 2m0": func(c *postgres.Config) { c.ConnectTimeout = 2 * time.Minute },
		"SERVICE_DATABASE_IDLE_TIMEOUT must be from 1s to 1h0m0s, not 0s":      func(c *postgres.Config) { c.IdleTimeout = 0 },
		"SERVICE_DATABASE_RETRY_TIMEOUT must be from 0s to 30s, not -1s":       func(c *postgres.Config) { c.RetryTimeout = -time.Second },
		"SERVICE_DATABASE_RETRY_TIMEOUT must be from 0s to 30s, not 1m0s":      func(c *postgres.Config) { c.RetryTimeout = time.Minute },
	} {
		config := valid
		change(&config)
		if err := config.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSearchConfigValidate_RejectsInvalidValues(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]postgres.SearchConfig{
		"": {Items: 5000, Timeout: time.Second},
		"SERVICE_SEARCH_ITEMS must be from 1000 to 100000, not 999":    {Items: 999, Timeout: time.Second},
		"SERVICE_SEARCH_ITEMS must be from 1000 to 100000, not 100001": {Items: 100_001, Timeout: time.Second},
		"SERVICE_SEARCH_TIMEOUT must be from 10ms to 10s, not 9ms":     {Items: 5000, Timeout: 9 * time.Millisecond},
		"SERVICE_SEARCH_TIMEOUT must be from 10ms to 10s, not 11s":     {Items: 5000, Timeout: 11 * time.Second},
	} {
		if err := config.Validate(); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestConfigAddress_NamesTheServersWithoutCredentials(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u:hunter2@db.example.org/media":                   "db.example.org:5432/media",
		"postgres://u:hunter2@a:1,b:2/media?target_session_attrs=any": "a:1,b:2/media",
		"postgres:///media?host=/run/postgresql&user=u":               "/run/postgresql/media",
		"postgres://u:hunter2@[::1]:5433/media?sslmode=disable":       "[::1]:5433/media",
		"mysql://u:hunter2@h/media":                                   "an invalid address",
		"host=db.example.org user=u password=hunter2 dbname=media":    "db.example.org:5432/media",
	} {
		if got := (postgres.Config{DatabaseURL: url}).Address(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// connectionsOf counts the connections to a database.
func connectionsOf(t *testing.T, admin *pgx.Conn, database string) (n int) {
	t.Helper()
	must(t, admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()`, database).Scan(&n))
	return n
}

func administer(t *testing.T, server *testenv.PostgresRestartable) *pgx.Conn {
	t.Helper()
	admin := connect(t, server.Server.AdminURL("postgres"))
	return admin
}

func databaseOf(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	must(t, err)
	return config.Database
}

// Idle connections were kept for half an hour.
func TestStore_GivesIdleConnectionsBack(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	store := newRetrying(t, url, url, func(c *postgres.Config) { c.DatabaseConns, c.IdleTimeout = 8, time.Second })
	admin, database := administer(t, server), databaseOf(t, url)
	for most := 0; most < 3; most = max(most, connectionsOf(t, admin, database)) {
		var calls sync.WaitGroup
		for range 16 {
			calls.Go(func() {
				if _, err := store.Items.CountItems(t.Context(), store.scope, media.Filter{}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	wait.Until(t, "the store has no connection", func() bool { return connectionsOf(t, admin, database) == 0 })
}

// A server without a free connection was reported as one that is unreachable.
func TestStore_SaysWithNumbersThatTheServerHasNoConnectionLeft(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	admin := administer(t, server)
	for what, limit := range map[string]string{
		"the limit of the role is 1":     "ALTER ROLE mediastack CONNECTION LIMIT ",
		"the limit of the database is 1": "ALTER DATABASE " + databaseOf(t, url) + " CONNECTION LIMIT ",
	} {
		store := newRetrying(t, url, url, func(c *postgres.Config) { c.RetryTimeout = 0 })
		_, err := admin.Exec(t.Context(), limit+"0")
		must(t, err)
		fresh := open(t, url)
		const unknown = "PostgreSQL has no connection left: this process has 0 and may have 4 (SERVICE_DATABASE_MAX_CONNS), max_connections of the server is not known yet: "
		if err := fresh.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), unknown) {
			t.Errorf("%s: before the first connection: %v", what, err)
		}
		// The store that connects again reads the limit. It has no second connection while the first one is in use.
		must(t, check.ErrorOf(admin.Exec(t.Context(), limit+"1")))
		must(t, check.ErrorOf(admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mediastack'`)))
		wait.Until(t, "the store connects again", func() bool { return store.Ping(t.Context()) == nil })
		// The pool takes a connection back after the call that used it has returned.
		wait.Until(t, "the connection is free", func() bool { return measured(t, store.Store, "mediastack_database_connections", "in_use") == 0 })
		holds, release := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := store.Items.WithPurgeLock(t.Context(), func(context.Context) error { close(holds); <-release; return nil })
			ended <- err
		}()
		<-holds
		_, err = store.Items.CountItems(t.Context(), store.scope, media.Filter{})
		if err == nil || !strings.Contains(err.Error(), "this process has 1 and may have 4 (SERVICE_DATABASE_MAX_CONNS), max_connections of the server is 200, "+what+": ") {
			t.Errorf("%s: %v", what, err)
		}
		if got := measured(t, store.Store, "mediastack_database_exhausted_total"); got < 1 {
			t.Errorf("%s: the metric has %v attempts", what, got)
		}
		close(release)
		must(t, <-ended)
		must(t, check.ErrorOf(admin.Exec(t.Context(), limit+"-1")))
		store.Close()
	}
}

// Nothing but the server's own administrators is left out of the arithmetic of the guide.
func TestMigrate_NeedsOneConnection(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.EmptyDatabase(t, server)
	must(t, check.ErrorOf(administer(t, server).Exec(t.Context(), "ALTER ROLE mediastack CONNECTION LIMIT 1")))
	must(t, postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url, DatabaseConns: 20}, slog.New(slog.NewTextHandler(io.Discard, nil))))
}

// A process that is paused in the middle of a transaction does not keep others waiting for its locks.
func TestTransactions_OfPausedProcessesLoseTheirLocks(t *testing.T) {
	t.Parallel()
	paused, url := setup(t)
	scope := provisioned(t, paused)
	seedItemRows(t, connect(t, url), scope, "01900000-0000-7000-8000-", 1, "private", "", true)
	item := uuid.MustParse("01900000-0000-7000-8000-000000000001")
	locked, resume, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := paused.Items.UpdateItem(t.Context(), scope, item, func(item media.Item, repeated bool) (media.Item, bool, error) {
			if !repeated {
				close(locked)
				<-resume
			}
			item.Caption += "paused"
			return item, true, nil
		})
		ended <- err
	}()
	<-locked
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout(t))
	defer cancel()
	_, err := open(t, url).Items.UpdateItem(ctx, scope, item, func(item media.Item, _ bool) (media.Item, bool, error) {
		item.Caption = "other, "
		return item, true, nil
	})
	must(t, err)
	close(resume)
	err = wait.Receive(t, "the process that was paused goes on", ended)
	got, getErr := paused.Items.Item(t.Context(), scope, item)
	must(t, getErr)
	if err == nil && got.Caption != "other, paused" || err != nil && (!fault.Is(err, fault.Unavailable) || got.Caption != "other, ") {
		t.Errorf("it returns %v, and the caption is %q", err, got.Caption)
	}
}
