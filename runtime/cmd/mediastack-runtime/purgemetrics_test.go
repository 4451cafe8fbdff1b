package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
)

// The process of the purge ends: one replica of the runtime exports what it did.
func TestPurgeMetrics_AreExportedByOneReplica(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	first := prepared(t, database, s3)
	replica := func() *service {
		return &service{logs: new(buffer), database: database, stores: first.stores, tenant: first.tenant}
	}
	stop := first.serve(t, "--shutdown-timeout=5s")
	serving := func(want int) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), database)
		must(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		testwait.Until(t, "the replicas serve", func() bool {
			var got int
			must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM runtime_instance").Scan(&got))
			return got == want
		})
	}
	serving(1)
	second, third := replica(), replica()
	second.serve(t)
	serving(2)
	third.serve(t)
	serving(3)
	aged, kept := first.upload(t), first.upload(t)
	statement(t, database, "UPDATE item SET created_at = now() - interval '25 hours' WHERE id = '"+aged.ID+"'")
	if status, text := first.send(t, http.MethodPost, "/media/seal/"+kept.ID, "application/json", ""); status != http.StatusOK {
		t.Fatalf("seal: %d %s", status, text)
	}
	young := first.upload(t)
	statement(t, database, "UPDATE item SET created_at = now() - interval '2 hours' WHERE id = '"+young.ID+"'")
	before := time.Now()
	if code, _, stderr := call(t.Context(), append([]string{"purge"}, first.stores...)...); code != 0 {
		t.Fatalf("purge: %d %s", code, stderr)
	}
	// A replica may have removed the object of the draft before the purge did.
	statement(t, database, "UPDATE purge_run SET removals = 7 WHERE removals IN (0, 1)")
	check := func(who string, s *service) {
		t.Helper()
		found := s.metrics(t)
		for _, c := range []struct {
			least, less float64
			metric      string
			labels      []string
		}{
			{1, 2, "mediastack_purge_removed_total", []string{"kind", "drafts"}},
			{7, 8, "mediastack_purge_removed_total", []string{"kind", "objects"}},
			{1, 2, "mediastack_purge_runs_total", []string{"outcome", "completed"}},
			{0, 1, "mediastack_purge_runs_total", []string{"outcome", "failed"}},
			{float64(before.Unix()), float64(before.Add(testwait.Timeout(t)).Unix()), "mediastack_purge_last_success_timestamp_seconds", nil},
			{1, 2, "mediastack_drafts", nil},
			{7200, 7200 + testwait.Timeout(t).Seconds(), "mediastack_drafts_oldest_age_seconds", nil},
			{0, 1, "mediastack_removals_pending", nil},
			{0, 1, "mediastack_removals_failed", nil},
			{5, 6, "mediastack_stored_bytes", nil},
			{5, 6, "mediastack_account_stored_bytes", []string{"account", first.tenant.Account.ID.String(), "account_namespace", "team", "account_name", "one"}},
			{1, 2, "mediastack_account_stored_items", nil},
			{1, 2, "mediastack_account_drafts", nil},
			{10, 11, "mediastack_account_used_bytes", nil},
			{1 << 30, 1<<30 + 1, "mediastack_account_cap_bytes", nil},
		} {
			if found[c.metric] == nil {
				t.Errorf("%s does not export %s", who, c.metric)
			} else if got := metricValue(found, c.metric, c.labels...); got < c.least || got >= c.less {
				t.Errorf("%s: %s %v is %v, want %v", who, c.metric, c.labels, got, c.least)
			}
		}
	}
	check("the first replica", first)
	for name := range third.metrics(t) {
		if name == "mediastack_drafts" || name == "mediastack_purge_runs_total" || name == "mediastack_account_stored_bytes" {
			t.Errorf("another replica exports %s, too", name)
		}
	}
	stop()
	testwait.Until(t, "the first replica has ended", func() bool { return attribute(first.logs.String(), "shutdown complete", "level") != "" })
	// The second one has read nothing so far: what it reads is cached for a minute.
	check("the second replica", second)
}

// A run that removes nothing because the stores fail is a failure, and the success before it stays.
func TestPurgeMetrics_CountRunsThatFail(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	s := prepared(t, database, s3)
	purge := func(want int) {
		t.Helper()
		if code, _, stderr := call(t.Context(), append([]string{"purge"}, s.stores...)...); code != want {
			t.Fatalf("purge: %d %s", code, stderr)
		}
	}
	purge(0)
	statement(t, database, "ALTER TABLE upload RENAME TO upload_away")
	purge(exitFailed)
	statement(t, database, "ALTER TABLE upload_away RENAME TO upload")
	statement(t, database, "UPDATE installation SET hold_reason = 'a test'")
	purge(exitActionRequired)
	statement(t, database, "UPDATE installation SET hold_reason = ''")
	s.serve(t)
	found := s.metrics(t)
	for _, outcome := range []string{"completed", "failed", "held"} {
		if got := metricValue(found, "mediastack_purge_runs_total", "outcome", outcome); got != 1 {
			t.Errorf("%v runs are %s", got, outcome)
		}
	}
	if success, last := metricValue(found, "mediastack_purge_last_success_timestamp_seconds"), metricValue(found, "mediastack_purge_last_run_timestamp_seconds"); success <= 0 || success >= last {
		t.Errorf("the last success was at %v, the last run at %v", success, last)
	}
	if metricValue(found, "mediastack_purge_needs_attention") != 1 {
		t.Error("a run that was held needs no attention")
	}
}
