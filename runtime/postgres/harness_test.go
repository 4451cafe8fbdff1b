package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t *testing.T, url string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: url})
	must(t, err)
	t.Cleanup(store.Close)
	return store
}

// connect returns a connection of the test's own, which ends with it.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func migrate(t *testing.T, url string) {
	t.Helper()
	must(t, postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url}, slog.New(slog.DiscardHandler)))
}

var (
	_ auth.CredentialStore = postgres.Credentials{}
	_ tus.Locks            = (*postgres.UploadLocks)(nil)
)

func setup(t *testing.T) (*postgres.Store, string) {
	t.Helper()
	url := testenv.Postgres(t)
	return open(t, url), url
}

func registry(store *postgres.Store) *account.Registry {
	return account.NewRegistry(store.Accounts, "media", time.Now)
}

var spec = account.Spec{Namespace: "team-a", Name: "demo", DisplayName: "Demo", Owners: []string{"Ada@Example.org"}, MaxStorage: 1000, MaxUploadSize: 100}

// counts reports an error if a query selects another number than the one that is wanted. What names what is counted.
func counts(t *testing.T, url string, want int64, what, sql string, args ...any) {
	t.Helper()
	if n := number(t, url, sql, args...); n != want {
		t.Errorf("%d %s, want %d", n, what, want)
	}
}

// version returns the row versions of a table: every write changes it.
func version(t *testing.T, url, table string) string {
	t.Helper()
	var all string
	must(t, testenv.Connections(t, url).QueryRow(t.Context(), `SELECT coalesce(string_agg(xmin::text || ctid::text, ' ' ORDER BY ctid), '') FROM `+table).Scan(&all))
	return all
}

func value[T any](v T) *T { return &v }

var must = check.NoError

func always() bool { return true }

// closeAccount closes an account and retains its media.
func closeAccount(t *testing.T, r *account.Registry, id uuid.UUID) {
	t.Helper()
	_, err := r.Close(t.Context(), id, account.CloseOptions{})
	must(t, err)
}
