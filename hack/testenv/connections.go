package testenv

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections returns connections of the test itself to a database, for statements beside those of the
// product. They are closed before a database of this package is dropped, else when the test ends.
//
// A new connection costs 40 to 100 ms of processor time on a small virtual machine: the server forks, and the
// first access to each page of memory is a fault. So helpers that run one statement, often in a condition that
// is tried again and again, share them.
func Connections(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	kept, made := connections.Load(url)
	if !made {
		kept = keepOf(t, url)
	}
	pool, err := kept.(*keptPool).open()
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// connections has the *keptPool of each database, by its URL, or by a testURL.
var connections sync.Map

// testURL is a database that this package did not make, such as one of a restored server, and the test that uses it.
type testURL struct {
	test testing.TB
	url  string
}

// keepOf returns the *keptPool of a test.
func keepOf(t testing.TB, url string) any {
	key, fresh := testURL{test: t, url: url}, &keptPool{url: url}
	kept, found := connections.LoadOrStore(key, fresh)
	if !found {
		t.Cleanup(func() {
			connections.Delete(key)
			fresh.close()
		})
	}
	return kept
}

// keptPool opens its pool when it is asked for one.
type keptPool struct {
	url string

	mu     sync.Mutex
	pool   *pgxpool.Pool // nil before the first open
	closed bool
}

func (k *keptPool) open() (*pgxpool.Pool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errors.New("the database is being dropped")
	}
	if k.pool != nil {
		return k.pool, nil
	}
	config, err := pgxpool.ParseConfig(k.url)
	if err != nil {
		return nil, err
	}
	// Tests end connections, stop servers and change schemas: no statement is kept, and a connection that has
	// ended is replaced.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	k.pool, err = pgxpool.NewWithConfig(context.Background(), config) // it connects later
	return k.pool, err
}

func (k *keptPool) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.pool != nil {
		k.pool.Close()
	}
}

// administrator has the connections to the shared server that make and drop databases. They end with the process.
var administrator = sync.OnceValues(func() (*pgxpool.Pool, error) {
	server, err := postgres()
	if err != nil {
		return nil, err
	}
	return (&keptPool{url: server.AdminURL("postgres")}).open()
})
