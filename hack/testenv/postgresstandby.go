package testenv

import (
	"path/filepath"
	"testing"

	"mediastack.dev/hack/servers"
)

// Standby starts a streaming standby of a server of PostgresServer, and stops it at the end of the test.
func Standby(t testing.TB, primary *Restartable[*servers.Postgres]) *servers.Postgres {
	t.Helper()
	dir := TempDir(t)
	standby, err := primary.Server.StartStandby(t.Context(), servers.PostgresConfig{Dir: filepath.Join(dir, "standby"), LogFile: filepath.Join(dir, "standby.log"), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Stop)
	return standby
}
