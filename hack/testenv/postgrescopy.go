package testenv

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/servers"
)

// CopyDatabase copies a database of the shared cluster, as CREATE DATABASE ... TEMPLATE does, and
// returns the URL of the copy. It ends the connections to the source.
func CopyDatabase(t testing.TB, source string) string {
	t.Helper()
	server := sharedPostgres(t)
	address, err := url.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.TrimPrefix(address.Path, "/"), nextDatabase()
	conn, err := pgx.Connect(t.Context(), server.AdminURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, statement := range []string{
		"ALTER DATABASE " + from + " ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + from + "'",
		copyStatement(from, to),
		"ALTER DATABASE " + from + " ALLOW_CONNECTIONS true",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	dropAfter(t, server, to)
	return server.URL(to)
}

// CopyPostgres starts a copy of the files of a cluster that is stopped. It is the same server for
// PostgreSQL, as one that was started from a snapshot of a disk.
func CopyPostgres(t testing.TB, stopped *Restartable[*servers.Postgres]) *Restartable[*servers.Postgres] {
	t.Helper()
	dir := TempDir(t)
	copyFiles(t, stopped.Server.Dir(), filepath.Join(dir, "pg"))
	started, err := Group(t).StartPostgres(t.Context(), servers.PostgresConfig{Dir: filepath.Join(dir, "pg"), LogFile: filepath.Join(dir, "postgres.log"), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	return &Restartable[*servers.Postgres]{Server: started, t: t}
}

// SaveData copies the data of a cluster that is stopped. The returned function puts it back: call it
// while the cluster is stopped.
func SaveData(t testing.TB, stopped *Restartable[*servers.Postgres]) (restore func()) {
	t.Helper()
	saved := filepath.Join(TempDir(t), "saved")
	copyFiles(t, stopped.Server.Dir(), saved)
	return func() {
		t.Helper()
		if err := os.RemoveAll(stopped.Server.Dir()); err != nil {
			t.Fatal(err)
		}
		copyFiles(t, saved, stopped.Server.Dir())
	}
}

// copyFiles copies a directory with owners and permissions.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, output)
	}
}
