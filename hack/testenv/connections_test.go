package testenv_test

import (
	"testing"

	"mediastack.dev/hack/testenv"
)

// backend returns the process of the server that answers the test.
func backend(t *testing.T, url string) (pid int) {
	t.Helper()
	must(t, testenv.Connections(t, url).QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	return pid
}

func TestConnections_AreSharedByStatements(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"a copy": testenv.Postgres(t), "an empty database": testenv.EmptyPostgres(t)} {
		first := backend(t, url)
		for range 3 {
			if again := backend(t, url); again != first {
				t.Errorf("%s: the process %d answered, and then %d", name, first, again)
			}
		}
		t.Run(name, func(t *testing.T) {
			if again := backend(t, url); again != first {
				t.Errorf("the subtest was answered by %d, its parent by %d", again, first)
			}
		})
	}
}

// CopyDatabase ends the connections to the source, and tests stop servers.
func TestConnections_AreReplacedWhenTheyHaveEnded(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	first := backend(t, url)
	testenv.CopyDatabase(t, url)
	if backend(t, url) == first {
		t.Error("the connection was not ended")
	}

	server := testenv.PostgresServer(t)
	url = testenv.EmptyDatabase(t, server)
	backend(t, url)
	server.Kill()
	server.Start()
	backend(t, url)
}

// A statement that was prepared with the columns of before would fail.
func TestConnections_FollowChangesOfTheSchema(t *testing.T) {
	t.Parallel()
	connections := testenv.Connections(t, testenv.EmptyPostgres(t))
	for _, columns := range []string{"id int", "id int, name text"} {
		for _, statement := range []string{"DROP TABLE IF EXISTS pictures", "CREATE TABLE pictures (" + columns + ")"} {
			if _, err := connections.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := connections.Query(t.Context(), "SELECT * FROM pictures WHERE id > $1", 0)
		must(t, err)
		for rows.Next() {
		}
		if err := rows.Err(); err != nil {
			t.Errorf("with the columns %s: %v", columns, err)
		}
	}
}

// Another server's database is used until the test ends.
func TestConnections_ReachADatabaseThatTheyWereNotMadeFor(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := server.Server.AdminURL("template1")
	if first := backend(t, url); backend(t, url) != first {
		t.Error("the connection was not kept")
	}
}
