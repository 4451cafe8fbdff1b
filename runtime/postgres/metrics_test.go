package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// measured returns the value of a metric of a store, of the series with this label value if one is given.
func measured(t *testing.T, store *postgres.Store, name string, label ...string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, store.Register(registry))
	must(t, store.RegisterUploads(registry))
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == name && (len(label) == 0 || one.GetLabel()[0].GetValue() == label[0]) {
				return one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("there is no metric %s %v", name, label)
	return 0
}

func TestMetrics_CountWaitsForAConnection(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := newRetrying(t, url, url, func(c *postgres.Config) { c.DatabaseConns = 1 })
	if got := measured(t, store.Store, "mediastack_database_connections_max"); got != 1 {
		t.Errorf("the pool may have %v connections", got)
	}
	// The pool was empty at first.
	if waits, seconds := measured(t, store.Store, "mediastack_database_acquire_waits_total"), measured(t, store.Store, "mediastack_database_acquire_wait_seconds_total"); waits < 1 || seconds <= 0 {
		t.Errorf("%v waits of %v s", waits, seconds)
	}
	if acquires, opened := measured(t, store.Store, "mediastack_database_acquires_total"), measured(t, store.Store, "mediastack_database_connections_opened_total"); acquires < 2 || opened != 1 {
		t.Errorf("%v acquires of %v connections", acquires, opened)
	}
	_, err := store.Items.WithPurgeLock(t.Context(), func(context.Context) error {
		if got := measured(t, store.Store, "mediastack_database_connections", "in_use"); got != 1 {
			t.Errorf("%v connections are in use", got)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = store.Items.CountItems(canceled, store.scope, media.Filter{})
		return nil
	})
	must(t, err)
	if got := measured(t, store.Store, "mediastack_database_acquires_canceled_total"); got < 1 {
		t.Errorf("%v waits ended without a connection", got)
	}
	wait.Until(t, "the connection is idle", func() bool { return measured(t, store.Store, "mediastack_database_connections", "idle") == 1 })
	if got := measured(t, store.Store, "mediastack_upload_batch_size", "open"); got != 0 {
		t.Errorf("%v batches", got)
	}
	fill(t, store.Store, store.scope, 2, 0)
	if open, commit := measured(t, store.Store, "mediastack_upload_batch_size", "open"), measured(t, store.Store, "mediastack_upload_batch_size", "commit"); open != 2 || commit != 2 {
		t.Errorf("%v and %v batches", open, commit)
	}
	if got := measured(t, store.Store, "mediastack_upload_batch_waiting", "open"); got != 0 {
		t.Errorf("%v uploads wait", got)
	}
}

// An attempt that fails opens no connection: otherwise an outage looks like a server that ends all connections.
func TestMetrics_CountConnectionsAndNotAttempts(t *testing.T) {
	t.Parallel()
	const opened = "mediastack_database_connections_opened_total"
	closed, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: fmt.Sprintf("postgres://a:b@127.0.0.1:%d/c?sslmode=disable", testenv.FreePort(t))})
	must(t, err)
	t.Cleanup(closed.Close)
	for range 3 {
		if err := closed.Ping(t.Context()); err == nil {
			t.Fatal("the ping of no server succeeds")
		}
	}
	if got := measured(t, closed, opened); got != 0 {
		t.Errorf("%v connections were opened without a server", got)
	}
	serving, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: testenv.Postgres(t), DatabaseConns: 1})
	must(t, err)
	t.Cleanup(serving.Close)
	for range 3 {
		must(t, serving.Ping(t.Context()))
	}
	if got := measured(t, serving, opened); got != 1 {
		t.Errorf("%v connections were opened, of a pool of one", got)
	}
}

func TestMetrics_MeasureStatements(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := newRetrying(t, url, url, func(*postgres.Config) {})
	before := measured(t, store.Store, "mediastack_database_statement_duration_seconds")
	for range 3 {
		_, err := store.Installations.ServingRuntimes(t.Context())
		must(t, err)
	}
	if got := measured(t, store.Store, "mediastack_database_statement_duration_seconds") - before; got < 3 {
		t.Errorf("of 3 statements %v were measured", got)
	}
}
