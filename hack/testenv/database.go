package testenv

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/servers"
	schema "mediastack.dev/runtime/postgres"
)

const (
	// template is the database that has the schema and nothing else.
	template = "mediastack_template"
	// templateLock is the advisory lock of the process that makes the template. The number is arbitrary.
	templateLock = 7_301_442_907
)

var (
	// Databases of processes that share a server have different prefixes.
	databasePrefix = "test_" + servers.RandomSecret(4) + "_"
	databases      atomic.Int64

	// migrated makes the template, once for all processes that share the server.
	migrated = sync.OnceValue(func() error {
		server, err := postgres()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
		defer cancel()
		return makeTemplate(ctx, server)
	})
)

func nextDatabase() string { return fmt.Sprint(databasePrefix, databases.Add(1)) }

// Postgres returns the URL of a database of the test's own with the schema of the product, whose owner
// is the role in the URL. It is an installation of its own, and is dropped when the test ends.
//
// It is a copy of a database that was migrated once: migrations take longer than all else that most tests do.
func Postgres(t testing.TB) string {
	t.Helper()
	server := sharedPostgres(t)
	if err := migrated(); err != nil {
		t.Fatalf("migrate the template of the databases: %v", err)
	}
	name := nextDatabase()
	if err := copyTemplate(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	dropAfter(t, server, name)
	url := server.URL(name)
	if err := renew(t, url); err != nil {
		t.Fatal(err)
	}
	return url
}

// EmptyPostgres returns the URL of an empty database of the test's own, for tests of what comes before
// the schema.
func EmptyPostgres(t testing.TB) string {
	t.Helper()
	return emptyDatabase(t, sharedPostgres(t))
}

func sharedPostgres(t testing.TB) *servers.Postgres {
	t.Helper()
	server, err := postgres()
	if err != nil {
		t.Fatalf("the test needs PostgreSQL: %v", err)
	}
	return server
}

func emptyDatabase(t testing.TB, server *servers.Postgres) string {
	t.Helper()
	name := nextDatabase()
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	dropAfter(t, server, name)
	return server.URL(name)
}

func dropAfter(t testing.TB, server *servers.Postgres, name string) {
	url, own := server.URL(name), &keptPool{url: server.URL(name)}
	connections.Store(url, own)
	t.Cleanup(func() {
		connections.Delete(url)
		own.close()
		// A server that the test has stopped takes its databases with it.
		if server.Ended() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
		defer cancel()
		if err := drop(ctx, server, name); err != nil {
			t.Error(err)
		}
	})
}

func drop(ctx context.Context, server *servers.Postgres, name string) error {
	if shared, err := postgres(); err != nil || server != shared {
		return server.DropDatabase(ctx, name)
	}
	admin, err := administrator()
	if err != nil {
		return err
	}
	_, err = admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	return err
}

// makeTemplate makes the template unless another process has made it.
func makeTemplate(ctx context.Context, server *servers.Postgres) error {
	conn, err := pgx.Connect(ctx, server.AdminURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // which also unlocks
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", template).Scan(&exists); err != nil || exists {
		return err
	}
	// The name says that the migrations are complete, so it is given last.
	const unfinished = template + "_unfinished"
	if err := server.DropDatabase(ctx, unfinished); err != nil {
		return err
	}
	if err := server.CreateDatabase(ctx, unfinished); err != nil {
		return err
	}
	if err := migrate(ctx, server.URL(unfinished)); err != nil {
		return err
	}
	// A connection to the template, such as one of autovacuum, would delay its copies.
	for _, statement := range []string{
		"ALTER DATABASE " + unfinished + " ALLOW_CONNECTIONS false", "ALTER DATABASE " + unfinished + " RENAME TO " + template,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func migrate(ctx context.Context, url string) error {
	return schema.Migrate(ctx, schema.Config{DatabaseURL: url}, slog.New(slog.DiscardHandler))
}

// copyStatement returns the statement that copies a database by its files, which takes a fraction of the time of
// copying it through the write-ahead log.
func copyStatement(from, to string) string {
	return "CREATE DATABASE " + to + " TEMPLATE " + from + " OWNER " + servers.Role + " STRATEGY FILE_COPY"
}

// copyTemplate makes a database from the template.
func copyTemplate(ctx context.Context, name string) error {
	admin, err := administrator()
	if err != nil {
		return err
	}
	if _, err := admin.Exec(ctx, copyStatement(template, name)); err != nil {
		return fmt.Errorf("copy the template of the databases: %w", err)
	}
	return nil
}

// renew makes the installation of a copy one of its own. The connection is that of the test's own statements.
func renew(t testing.TB, url string) error {
	_, err := Connections(t, url).Exec(t.Context(), `UPDATE installation SET id = gen_random_uuid(), token = gen_random_uuid(), heartbeat_at = now(),
		proof_key = sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))`)
	return err
}
