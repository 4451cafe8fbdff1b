package testenv

import (
	"context"
	"path/filepath"
	"testing"

	"mediastack.dev/hack/servers"
)

// Restartable is a server of one test, which may stop it, kill it and start it again at the same address.
type Restartable[T any] struct {
	// Server is the running server; it changes with every Start.
	Server T

	t     testing.TB
	stop  func(T)
	kill  func(T)
	start func(ctx context.Context) (T, error)
}

// Start starts the server again, with the data and at the address that it had.
func (s *Restartable[T]) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := s.start(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Server = server
}

// Stop ends the server in order.
func (s *Restartable[T]) Stop() { s.stop(s.Server) }

// Kill ends the server as a crash would.
func (s *Restartable[T]) Kill() { s.kill(s.Server) }

// PostgresServer starts a PostgreSQL cluster that only this test uses.
func PostgresServer(t testing.TB) *Restartable[*servers.Postgres] {
	t.Helper()
	dir, group := TempDir(t), Group(t)
	config := servers.PostgresConfig{Dir: filepath.Join(dir, "pg"), LogFile: filepath.Join(dir, "postgres.log"), Volatile: true}
	server := &Restartable[*servers.Postgres]{
		t:     t,
		stop:  func(p *servers.Postgres) { p.Stop() },
		kill:  func(p *servers.Postgres) { p.Kill() },
		start: func(ctx context.Context) (*servers.Postgres, error) { return group.StartPostgres(ctx, config) },
	}
	server.Start()
	return server
}

// Database makes an empty database on a cluster of the test's own and returns its URL, which stays the
// same when the cluster is started again.
func Database(t testing.TB, server *Restartable[*servers.Postgres]) string {
	t.Helper()
	return freshDatabase(t, server.Server)
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
			return cluster.StartGateway(ctx, config.Port, config.LogFile)
		}
	}
	server := &Restartable[*servers.S3]{
		t:    t,
		stop: func(s *servers.S3) { s.Stop() },
		kill: func(s *servers.S3) { s.Kill() },
		start: func(ctx context.Context) (*servers.S3, error) {
			s3, err := start(ctx, config)
			if err == nil {
				config.Port, config.AccessKey, config.SecretKey = s3.Port, s3.Access.AccessKey, s3.Access.SecretKey
			}
			return s3, err
		},
	}
	server.Start()
	t.Cleanup(func() { server.Server.Stop() })
	return server
}
