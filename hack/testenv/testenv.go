// Package testenv starts the servers of tests: a fresh PostgreSQL database, an S3 store, an API
// server, the shipped binaries. A server is started when the first test of a process asks for it and
// is shared by the rest of that process. A server that is not installed fails the test with the
// command that brings it; no test is skipped for it.
package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	startTimeout = 2 * time.Minute
	dirPrefix    = "mediastack-test-"
)

// The servers live as long as the test process, so they are the package's own variables.
var (
	shared = sync.OnceValues(newEnvironment)

	postgres = once(func(ctx context.Context, e *environment) (*servers.Postgres, error) {
		return e.group.StartPostgres(ctx, servers.PostgresConfig{
			Dir: e.path("pg"), LogFile: e.path("postgres.log"), Volatile: true,
		})
	})
	versity = once(func(ctx context.Context, e *environment) (*servers.S3, error) {
		return e.group.StartS3(ctx, servers.S3Config{Dir: e.path("s3"), LogFile: e.path("s3.log")})
	})
	minio = once(func(ctx context.Context, e *environment) (*servers.S3, error) {
		return e.group.StartMinIO(ctx, servers.S3Config{Dir: e.path("minio"), LogFile: e.path("minio.log")})
	})
	ceph = once(func(ctx context.Context, e *environment) (*servers.Ceph, error) {
		return e.group.StartCeph(ctx, e.path("ceph"))
	})
	gateway = once(func(ctx context.Context, e *environment) (*servers.S3, error) {
		cluster, err := ceph()
		if err != nil {
			return nil, err
		}
		return cluster.StartGateway(ctx, e.path("radosgw.log"))
	})
	kubernetes = once(startKubernetes)

	databases atomic.Int64
	started   atomic.Bool
)

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
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		return start(ctx, e)
	})
}

func newEnvironment() (*environment, error) {
	parent := os.TempDir()
	if !servers.PostgresCanReach(parent) {
		parent = "/tmp"
	}
	sweep(parent)
	dir, err := servers.MakeDataDir(parent, dirPrefix)
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
	if started.Load() {
		if e, err := shared(); err == nil {
			e.group.Close()
			_ = os.RemoveAll(e.dir)
			e.lock.Close()
		}
	}
	os.Exit(code)
}

// Postgres returns the URL of an empty database of the test's own, whose owner is the role in the URL.
// It is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := postgres()
	if err != nil {
		t.Fatalf("the test needs PostgreSQL: %v", err)
	}
	return freshDatabase(t, server)
}

func freshDatabase(t testing.TB, server *servers.Postgres) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		// A server that the test has stopped takes its databases with it.
		if server.Err() != nil || stopped(server.Process) {
			return
		}
		if err := server.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return server.URL(name)
}

func stopped(process *servers.Process) bool {
	select {
	case <-process.Done():
		return true
	default:
		return false
	}
}

// StoreEnv names the environment variable that chooses the S3 store of the tests: versitygw, minio
// or ceph. Without it S3 is versitygw, and tests of what stores do differently run against MinIO, too.
const StoreEnv = "MEDIASTACK_TEST_STORE"

// stores are the S3 stores that tests can run against.
var stores = map[string]func() (*servers.S3, error){"versitygw": versity, "minio": minio, "ceph": gateway}

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
	server, err := start()
	if err != nil {
		t.Fatalf("the test needs the S3 store %s: %v", name, err)
	}
	return server.Access
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
