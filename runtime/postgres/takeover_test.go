package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// fencedTables are the tables whose writes the fence rejects.
var fencedTables = []string{"account", "app", "api_key", "settings_pin", "stored_item"}

// The old cluster's operator does not know of the take-over: every write that it may send fails,
// and its caller is told before the write returns.
func TestTakeOver_FencesTheFormerCluster(t *testing.T) {
	t.Parallel()
	old, url := setup(t)
	bound, err := old.Installations.BindInstallation(t.Context(), "cluster-a")
	must(t, err)
	if again, err := old.Installations.BindInstallation(t.Context(), "cluster-b"); err != nil || again || !bound {
		t.Fatalf("the first cluster is bound: %t; then the second one: %t, %v", bound, again, err)
	}
	var fenced atomic.Int64
	old.OnFenced(func() { fenced.Add(1) })
	old.SetFence("cluster-a", 1, 0)
	accounts := registry(old)
	demo, err := accounts.Ensure(t.Context(), spec)
	must(t, err)
	apps, _, err := accounts.OpenApps(t.Context(), demo.ID, nil)
	must(t, err)

	winner := open(t, url)
	epoch, count, err := winner.Installations.TakeOver(t.Context(), installation.Takeover{ClusterUID: "cluster-b", OldClusterUID: "cluster-a", OldEpoch: 1})
	must(t, err)
	if epoch != 2 || count != 1 {
		t.Errorf("the take-over gives epoch %d and %d accounts", epoch, count)
	}
	before := map[string]string{}
	for _, table := range fencedTables {
		before[table] = version(t, url, table)
	}
	changed := spec
	changed.DisplayName = "Changed"
	writes := map[string]func() error{
		"update an account": func() error { _, err := accounts.Ensure(t.Context(), changed); return err },
		"insert an account": func() error {
			_, err := accounts.Ensure(t.Context(), account.Spec{Namespace: "team-b", Name: "other", MaxStorage: 1000, MaxUploadSize: 100})
			return err
		},
		"open an app":      func() error { _, _, err := accounts.OpenApps(t.Context(), demo.ID, []string{"web"}); return err },
		"issue a key":      func() error { _, _, err := accounts.IssueKey(t.Context(), apps[0].ID, 1, 0); return err },
		"close an account": func() error { _, err := accounts.Close(t.Context(), demo.ID, account.CloseOptions{}); return err },
	}
	for name, write := range writes {
		if err := write(); !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != fault.OtherInstallation {
			t.Errorf("%s: %v, want a fault with reason OtherInstallation", name, err)
		}
	}
	if got := fenced.Load(); got != int64(len(writes)) {
		t.Errorf("the caller was told of %d of %d rejected writes", got, len(writes))
	}
	for table, rows := range before {
		if version(t, url, table) != rows {
			t.Errorf("a row of %s was written", table)
		}
	}

	// The winner writes, and so does a session without the parameter, such as the runtime's.
	winner.SetFence("cluster-b", 2, 0)
	must(t, check.ErrorOf(registry(winner).Ensure(t.Context(), changed)))
	runtime := open(t, url)
	_, _, err = registry(runtime).OpenApps(t.Context(), demo.ID, []string{"web"})
	must(t, err)
	// An installation on hold accepts no write of its own operator either.
	must(t, runtime.Installations.Hold(t.Context(), "restored"))
	if _, err := registry(winner).Ensure(t.Context(), spec); fault.ReasonOf(err) != fault.OtherInstallation {
		t.Errorf("a write while the installation is on hold: %v", err)
	}
}

// A transaction that wrote before the take-over is committed before it; one that began before and
// writes after it fails.
func TestTakeOver_WaitsForWritesInProgress(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	_, err := store.Installations.BindInstallation(t.Context(), "cluster-a")
	must(t, err)
	writer, late := begin(t, url, "cluster-a/1"), begin(t, url, "cluster-a/1")
	const insert = `INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended)
		VALUES (gen_random_uuid(), 'a', $1, 'n', 'o', '', '{}', 1, 1, $1, false)`
	must(t, check.ErrorOf(writer.Exec(t.Context(), insert, "first")))

	done := make(chan error, 1)
	go func() {
		_, _, err := store.Installations.TakeOver(t.Context(), installation.Takeover{ClusterUID: "cluster-b", OldClusterUID: "cluster-a", OldEpoch: 1})
		done <- err
	}()
	wait.Until(t, "the take-over waits for the writer", func() bool {
		return number(t, url, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	})
	must(t, writer.Commit(t.Context()))
	must(t, <-done)

	if _, err := late.Exec(t.Context(), insert, "late"); err == nil {
		t.Error("a transaction that began before the take-over writes after it")
	}
	_ = late.Rollback(t.Context())
	var bound int
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM account WHERE namespace_uid = 'n'").Scan(&bound))
	if bound != 0 {
		t.Error("an account of the former cluster is not unbound: it was committed after the take-over")
	}
}

func TestTakeOver_OfAChangedInstallationIsAConflict(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	must(t, check.ErrorOf(store.Installations.BindInstallation(t.Context(), "cluster-a")))
	before := version(t, url, "installation")
	for _, request := range []installation.Takeover{
		{ClusterUID: "cluster-b", OldClusterUID: "cluster-c", OldEpoch: 1},
		{ClusterUID: "cluster-b", OldClusterUID: "cluster-a", OldEpoch: 2},
	} {
		if _, _, err := store.Installations.TakeOver(t.Context(), request); !fault.Is(err, fault.Conflict) {
			t.Errorf("%+v: %v, want Conflict", request, err)
		}
	}
	if version(t, url, "installation") != before {
		t.Error("the row was written")
	}
	epoch, _, err := store.Installations.TakeOver(t.Context(), installation.Takeover{ClusterUID: "cluster-b", OldClusterUID: "cluster-a", OldEpoch: 1, KnownEpoch: 7})
	if err != nil || epoch != 8 {
		t.Errorf("the epoch is %d, %v; want one above the ConfigMap's", epoch, err)
	}
}

func TestHoldAtEpoch_RaisesTheEpochAndKeepsTheFirstReason(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	must(t, store.Installations.HoldAtEpoch(t.Context(), "first", 5))
	must(t, store.Installations.HoldAtEpoch(t.Context(), "second", 3))
	row, err := store.Installations.Installation(t.Context())
	must(t, err)
	if row.Epoch != 5 || row.HoldReason != "first" || row.HeldAt == nil {
		t.Errorf("the row is %+v", row)
	}
}

func begin(t *testing.T, url, cluster string) pgx.Tx {
	t.Helper()
	conn := connect(t, url)
	must(t, check.ErrorOf(conn.Exec(t.Context(), "SELECT set_config('mediastack.cluster', $1, false)", cluster)))
	tx, err := conn.Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), "SELECT count(*) FROM account")))
	return tx
}
