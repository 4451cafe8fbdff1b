package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	testwait "mediastack.dev/hack/testenv/wait"
)

// A read-only PostgreSQL once was "unreachable" in the log, and /readyz said that all is well. Reads and files go on.
func TestReadOnlyDatabase_IsNamedAndReadsGoOn(t *testing.T) {
	t.Parallel()
	s := whole(t)
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	created := s.upload(t)
	database := s.database[strings.LastIndex(s.database, "/")+1:]
	database, _, _ = strings.Cut(database, "?")
	set := func(value string) {
		t.Helper()
		// The statement itself must be able to write: its session may be read-only by default.
		statement(t, s.database, fmt.Sprintf(`BEGIN; SET TRANSACTION READ WRITE; ALTER DATABASE %q SET default_transaction_read_only = %s; COMMIT`, database, value))
	}
	set("on")
	statement(t, s.database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	testwait.Until(t, "/readyz names it", func() bool {
		status, found := s.readiness(t)
		return status == http.StatusOK && found.Ready && found.Degraded && strings.Contains(found.Checks["changes"], "PostgreSQL is read-only: default_transaction_read_only is on")
	})
	if status, text := s.send(t, http.MethodGet, "/media/get/"+created.ID, "", ""); status != http.StatusOK {
		t.Errorf("a read: %d %s", status, text)
	}
	if status, text := s.send(t, http.MethodPost, "/media/seal/"+created.ID, "application/json", "{}"); status != http.StatusServiceUnavailable {
		t.Errorf("a change: %d %s", status, text)
	}
	testwait.Until(t, "the log names it", func() bool {
		return strings.Contains(s.logs.String(), "the database accepts no changes now") && strings.Contains(s.logs.String(), "read-only transaction")
	})
	// Sessions that began meanwhile stay read-only, and are used for 2 s at most. Changes once went on failing on connections that are used.
	set("off")
	testwait.Until(t, "/readyz is as before", func() bool { status, found := s.readiness(t); return status == http.StatusOK && !found.Degraded })
	testwait.Until(t, "changes succeed", func() bool {
		status, text := s.send(t, http.MethodPost, "/media/seal/"+created.ID, "application/json", "{}")
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("a change afterwards: %d %s", status, text)
		}
		return status == http.StatusOK
	})
}
