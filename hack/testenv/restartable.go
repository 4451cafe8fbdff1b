package testenv

import (
	"context"
	"path/filepath"
	"testing"

	"mediastack.dev/hack/servers"
)

// Restartable is a server of one test, which may stop it, kill it and start it again at the same address.
type Restartable[T server] struct {
	// Server is the server.
	Server T

	t testing.TB
}

// PostgresRestartable is a PostgreSQL server of one test.
type PostgresRestartable = Restartable[*servers.Postgres]

type server interface {
	Stop()
	Kill()
	Restart(ctx context.Context) error
}

// Start starts the server again, with the data and at the address that it had.
func (s *Restartable[T]) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	if err := s.Server.Restart(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// Stop ends the server in order.
func (s *Restartable[T]) Stop() { s.Server.Stop() }

// Kill ends the server as a crash would.
func (s *Restartable[T]) Kill() { s.Server.Kill() }

// PostgresServer starts a PostgreSQL cluster that only this test uses.
func PostgresServer(t testing.TB) *Restartable[*servers.Postgres] {
	t.Helper()
	return postgresServer(t, servers.PostgresConfig{})
}

// PostgresServerWithPassword is PostgresServer with a password for the role of the product, which
// connects by TCP.
func PostgresServerWithPassword(t testing.TB, password string) *Restartable[*servers.Postgres] {
	t.Helper()
	return postgresServer(t, servers.PostgresConfig{TCP: true, Password: password})
}

// PostgresServerWithSettings is PostgresServer with more settings of the server, by name.
func PostgresServerWithSettings(t testing.TB, settings map[string]string) *Restartable[*servers.Postgres] {
	t.Helper()
	return postgresServer(t, servers.PostgresConfig{Settings: settings})
}

func postgresServer(t testing.TB, config servers.PostgresConfig) *Restartable[*servers.Postgres] {
	t.Helper()
	dir := TempDir(t)
	config.Dir, config.LogFile, config.Volatile = filepath.Join(dir, "pg"), filepath.Join(dir, "postgres.log"), true
	started, err := Group(t).StartPostgres(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return &Restartable[*servers.Postgres]{Server: started, t: t}
}

// Database makes a database with the schema of the product on a cluster of the test's own and returns its
// URL, which stays the same when the cluster is started again.
func Database(t testing.TB, server *Restartable[*servers.Postgres]) string {
	t.Helper()
	url := emptyDatabase(t, server.Server)
	if err := migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// EmptyDatabase is Database without the schema.
func EmptyDatabase(t testing.TB, server *Restartable[*servers.Postgres]) string {
	t.Helper()
	return emptyDatabase(t, server.Server)
}

// S3Server starts an S3 store of the kind that StoreEnv names and that only this test uses. Of Ceph it
// is a gateway: the cluster behind it is shared.
func S3Server(t testing.TB) *Restartable[*servers.S3] {
	t.Helper()
	dir, group := TempDir(t), Group(t)
	config := servers.S3Config{Dir: filepath.Join(dir, "s3"), LogFile: filepath.Join(dir, "s3.log")}
	start := group.StartS3
	switch storeName() {
	case "minio":
		start = group.StartMinIO
	case "ceph":
		cluster, err := ceph()
		if err != nil {
			t.Fatalf("the test needs Ceph: %v", err)
		}
		start = func(ctx context.Context, config servers.S3Config) (*servers.S3, error) {
			return cluster.StartGateway(ctx, config.LogFile)
		}
	}
	started, err := start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { started.Stop() }) // of the process that runs then
	return &Restartable[*servers.S3]{Server: started, t: t}
}

// ClamdServer starts a clamd that only this test uses. It knows the EICAR test file, and no other signature.
func ClamdServer(t testing.TB) *Restartable[*ClamdProcess] {
	t.Helper()
	dir := TempDir(t)
	started, err := Group(t).StartClamd(t.Context(), servers.ClamdConfig{Dir: filepath.Join(dir, "clamd"), LogFile: filepath.Join(dir, "clamd.log")})
	if err != nil {
		t.Fatal(err)
	}
	return &Restartable[*servers.Clamd]{Server: started, t: t}
}

// eicar is the EICAR test file (https://www.eicar.org), which scanners find and which does nothing. It is in two parts, so that none finds this
// file.
const eicar = `X5O!P%@AP[4\PZX54(P^)7CC)7}$` + `EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*`

// EICAR returns the EICAR test file.
func EICAR() []byte { return []byte(eicar) }
