package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	testwait "mediastack.dev/hack/testenv/wait"
)

// Five replicas with PostgreSQL's default of 100 connections once blocked a rollout for good. These are
// the numbers of docs/guides/operate.md: 97 connections for others than superusers, of which two replicas
// of the operator may have 16.
const (
	defaultConnections  = 100
	reservedConnections = 3
	operatorConnections = 2 * 8
	replicas            = 5
	surge               = 2 // 25 percent, rounded up
	replicaConnections  = 8 + 2
)

func TestServe_FiveReplicasRollWithAHundredConnections(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	s := prepared(t, testenv.Database(t, server), testenv.S3(t))
	admin, err := pgx.Connect(t.Context(), server.Server.AdminURL("postgres"))
	must(t, err)
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	must(t, check.ErrorOf(admin.Exec(t.Context(), fmt.Sprintf("ALTER ROLE mediastack CONNECTION LIMIT %d", defaultConnections-reservedConnections-operatorConnections))))
	// The store that made the tenant keeps a connection.
	var own []int32
	must(t, admin.QueryRow(t.Context(), "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE usename = 'mediastack'").Scan(&own))
	var all []*service
	var ends []func() []string
	for range replicas + surge {
		replica := &service{logs: new(buffer), database: s.database, stores: s.stores, tenant: s.tenant}
		replica.serve(t, "--no-image-enabled", "--rate-limit-key=0", "--rate-limit-ip=0", "--key-cache-ttl=1ns", "--database-retry-timeout=0s")
		testwait.Until(t, "the replica is ready", func() bool { return replica.ready(t) })
		// More requests at once than a pool has connections.
		for range 2 {
			_, end := replica.load(t, "GET /media/get", "GET /media/get/count", "GET /media/get/size")
			ends = append(ends, end)
		}
		all = append(all, replica)
	}
	connections := func() (n int) {
		t.Helper()
		must(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE usename = 'mediastack' AND pid <> ALL($1)", own).Scan(&n))
		return n
	}
	testwait.Until(t, "the pools are full", func() bool { return connections() >= replicas*replicaConnections })
	// One that ends counts until its server process is gone.
	testwait.Until(t, "no replica has more connections than documented", func() bool { return connections() <= (replicas+surge)*replicaConnections })
	for _, command := range [][]string{{"migrate", "--database-wait=0s", "--database-url=" + s.database}, append([]string{"purge"}, s.stores...)} {
		if code, _, stderr := call(t.Context(), command...); code != 0 {
			t.Errorf("%s: exit code %d: %s", command[0], code, stderr)
		}
	}
	for _, replica := range all {
		if status, found := replica.readiness(t); status != http.StatusOK {
			t.Errorf("a replica is not ready: %+v", found)
		}
	}
	for _, end := range ends {
		if failures := end(); len(failures) > 0 {
			t.Errorf("%d requests failed: %s", len(failures), failures[0])
		}
	}

	// The readiness of a replica that gets no connection has the numbers.
	must(t, check.ErrorOf(admin.Exec(t.Context(), "ALTER ROLE mediastack CONNECTION LIMIT 0")))
	late := &service{logs: new(buffer), database: s.database, stores: s.stores, tenant: s.tenant}
	late.serve(t, "--no-image-enabled")
	testwait.Until(t, "the readiness says that the server has no connection left", func() bool {
		_, found := late.readiness(t)
		return strings.Contains(found.Checks["database"], "PostgreSQL has no connection left: this process has 0 and may have 8 (SERVICE_DATABASE_MAX_CONNS)")
	})
	if got := late.request(t, http.MethodGet, "/media/get"); got.status != http.StatusServiceUnavailable || !strings.Contains(late.logs.String(), `"status":503`) ||
		!strings.Contains(late.logs.String(), "PostgreSQL has no connection left: this process has 0") {
		t.Errorf("a request without a connection: %d", got.status)
	}
}
