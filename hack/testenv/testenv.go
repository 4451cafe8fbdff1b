// Package testenv starts the servers of tests: a fresh PostgreSQL database, an S3 store, the shipped
// binaries; kubetest has the control planes of Kubernetes. A server is started when the first test asks for it. It is shared by
// all test processes of `make test` (see Serve), or by the tests of a process that runs alone. A
// server that is not installed fails the test with the command that brings it; no test is skipped
// for it.
package testenv

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
)

const (
	// sharedConnections is the limit of the PostgreSQL server that all packages share: several of them run
	// at a time, and each of their tests has several replicas.
	sharedConnections = "800"

	// StartTimeout bounds the start of a server.
	StartTimeout = 2 * time.Minute
	dirPrefix    = "mediastack-test-"
)

// The servers live as long as the test process, so they are the package's own variables.
var (
	shared = sync.OnceValues(newEnvironment)

	postgres = sharedOr(postgresPath, attachPostgres, startPostgres)
	versity  = sharedOr(versityPath, attachStore, startVersity)
	minio    = sharedOr(minioPath, attachStore, startMinIO)

	// Ceph is never shared: only tests of one package at a time use it.
	ceph = once(func(ctx context.Context, e *environment) (*servers.Ceph, error) {
		return e.group.StartCeph(ctx, e.path("ceph"))
	})
	gateway = once(func(ctx context.Context, e *environment) (servers.S3Access, error) {
		cluster, err := ceph()
		if err != nil {
			return servers.S3Access{}, err
		}
		store, err := cluster.StartGateway(ctx, e.path("radosgw.log"))
		if err != nil {
			return servers.S3Access{}, err
		}
		return store.Access, nil
	})

	started atomic.Bool
)

func startPostgres(ctx context.Context, e *environment) (*servers.Postgres, error) {
	return e.group.StartPostgres(ctx, servers.PostgresConfig{
		Dir: e.path("pg"), LogFile: e.path("postgres.log"), Volatile: true,
		Settings: map[string]string{"max_connections": sharedConnections},
	})
}

func startVersity(ctx context.Context, e *environment) (servers.S3Access, error) {
	store, err := e.group.StartS3(ctx, servers.S3Config{Dir: e.path("s3"), LogFile: e.path("s3.log")})
	if err != nil {
		return servers.S3Access{}, err
	}
	return store.Access, nil
}

func startMinIO(ctx context.Context, e *environment) (servers.S3Access, error) {
	store, err := e.group.StartMinIO(ctx, servers.S3Config{Dir: e.path("minio"), LogFile: e.path("minio.log")})
	if err != nil {
		return servers.S3Access{}, err
	}
	return store.Access, nil
}

// environment is what the servers of one test process share.
type environment struct {
	group *servers.Group
	dir   string
	lock  *os.File
}

func (e *environment) path(name string) string { return filepath.Join(e.dir, name) }

// once starts a server once per process.
func once[T any](start func(ctx context.Context, e *environment) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		var none T
		e, err := shared()
		if err != nil {
			return none, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
		defer cancel()
		return start(ctx, e)
	})
}

func newEnvironment() (*environment, error) {
	parents := parents()
	for _, parent := range parents {
		sweep(parent)
	}
	dir, err := servers.MakeDataDir(parents[0], dirPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	started.Store(true)
	return &environment{group: servers.NewGroup(), dir: dir, lock: lock}, nil
}

// sweep removes directories of test processes that ended without Main, or were killed.
func sweep(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) && time.Since(info.ModTime()) > time.Minute {
			_ = os.RemoveAll(dir)
		}
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}

// Main runs a package's tests, then stops the servers in order and removes their directory:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// Without it the kernel ends the servers with the process, and a later test process removes the directory.
func Main(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// stop stops the servers of this process and removes their directory.
func stop() {
	if !started.Load() {
		return
	}
	if e, err := shared(); err == nil {
		e.group.Close()
		_ = os.RemoveAll(e.dir)
		e.lock.Close()
	}
}

// StoreEnv names the environment variable that chooses the S3 store of the tests: versitygw, minio
// or ceph. Without it S3 is versitygw, and tests of what stores do differently run against MinIO, too.
const StoreEnv = "MEDIASTACK_TEST_STORE"

// stores are the S3 stores that tests can run against.
var stores = map[string]func() (servers.S3Access, error){"versitygw": versity, "minio": minio, "ceph": gateway}

const defaultStore = "versitygw"

// S3 returns access to the S3 store that StoreEnv names; each test makes buckets of its own.
func S3(t testing.TB) servers.S3Access {
	t.Helper()
	return storeAccess(t, storeName())
}

func storeName() string { return cmp.Or(os.Getenv(StoreEnv), defaultStore) }

func storeAccess(t testing.TB, name string) servers.S3Access {
	t.Helper()
	start := stores[name]
	if start == nil {
		t.Fatalf("%s must be versitygw, minio or ceph, not %q", StoreEnv, name)
	}
	access, err := start()
	if err != nil {
		t.Fatalf("the test needs the S3 store %s: %v", name, err)
	}
	return access
}

// Stores returns the S3 stores by name that a test of what they do differently runs against: the one
// that StoreEnv names, or versitygw and MinIO.
func Stores() map[string]func(testing.TB) servers.S3Access {
	names := []string{"versitygw", "minio"}
	if chosen := os.Getenv(StoreEnv); chosen != "" {
		names = []string{chosen}
	}
	access := map[string]func(testing.TB) servers.S3Access{}
	for _, name := range names {
		access[name] = func(t testing.TB) servers.S3Access { t.Helper(); return storeAccess(t, name) }
	}
	return access
}

// TempDir returns a directory of the test's own, removed when it ends, that other users can pass, as
// PostgreSQL has to.
func TempDir(t testing.TB) string {
	t.Helper()
	e, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := servers.MakeDataDir(e.dir, "t-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
