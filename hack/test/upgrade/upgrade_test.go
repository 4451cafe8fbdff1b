package upgrade

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
)

// expand returns the migrations of the next version: they add two columns to every table, an index to the largest
// one, and change the view of the items.
func expand(tables []string) map[string]string {
	migrations, number := map[string]string{}, 90_000
	add := func(name, text string) {
		number++
		migrations[fmt.Sprintf("%d_next_%s.sql", number, name)] = text
	}
	for _, table := range tables {
		add(table, "-- +goose Up\nALTER TABLE "+table+" ADD COLUMN next_note text, ADD COLUMN next_rank integer NOT NULL DEFAULT 7;\n")
	}
	add("view", "-- +goose Up\nCREATE OR REPLACE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL;\n")
	add("index", "-- +goose NO TRANSACTION\n-- +goose Up\nDROP INDEX CONCURRENTLY IF EXISTS next_rank;\nCREATE INDEX CONCURRENTLY next_rank ON stored_item (next_rank, id);\n")
	return migrations
}

// An upgrade with a migration once took the service away until the new version served (227 of 3,231 requests
// failed), and there was no way back.
func TestUpgrade_WithAMigrationAndBackLosesNoRequest(t *testing.T) {
	t.Parallel()
	s, former := newSite(t), present(t)
	s.succeeds(former, "migrate")
	next := build(t, "next", expand(s.tables()), runtimePackage, operatorPackage)
	first, second := s.startRuntime(former), s.startRuntime(former)
	s.startOperator(former)
	tenant := &tenant{base: s.front.URL, key: s.account("demo")}
	end := tenant.begin(t.Context())
	defer end()
	tenant.proceeds(t, 3)

	// The next version has migrated, and nothing of it serves yet.
	if text := s.succeeds(next, "migrate"); strings.Count(text, `"migration applied"`) < 20 {
		t.Errorf("the next version has migrations of its own: %s", text)
	}
	tenant.proceeds(t, 5)
	s.account("of-the-former-operator")
	s.succeeds(former, "purge")

	running := s.replaceRuntimes(next, first, second)
	tenant.proceeds(t, 3)
	s.account("of-both-versions")
	s.startOperator(next)
	s.account("of-the-next-operator")

	// The way back, as helm rollback goes.
	if text := s.succeeds(former, "migrate"); !strings.Contains(text, "the schema is newer than this program, which may use it") {
		t.Errorf("migrate of the former version: %s", text)
	}
	running = s.replaceRuntimes(former, running...)
	s.startOperator(former)
	tenant.proceeds(t, 3)
	s.account("after-the-rollback")

	s.replaceRuntimes(next, running...)
	s.startOperator(next)
	tenant.proceeds(t, 3)
	s.account("after-the-second-upgrade")
	end()
	tenant.check(t)
	for _, v := range []version{former, next} {
		s.succeeds(v, "check", "--all")
		s.succeeds(v, "purge")
	}
}

// A migration that removes what an earlier version uses ends that version, which says what to do.
func TestUpgrade_ThatExcludesAProgramIsSaidByIt(t *testing.T) {
	t.Parallel()
	s, former := newSite(t), present(t)
	s.succeeds(former, "migrate")
	after := build(t, "after-next", map[string]string{
		"90001_expand.sql":   "-- +goose Up\nALTER TABLE stored_item ADD COLUMN next_note text;\n",
		"90002_contract.sql": "-- contract: the release before knows 90001, and does not use it.\n-- +goose Up\nUPDATE schema_compatibility SET oldest_program = 90001;\n",
	}, runtimePackage)
	runtime := s.startRuntime(former)
	s.startOperator(former)
	tenant := &tenant{base: s.front.URL, key: s.account("demo"), sealed: map[string][]byte{}}
	for _, round := range []func(context.Context) error{tenant.rest, tenant.mcp, tenant.tus} {
		must(t, round(t.Context()))
	}

	s.succeeds(after, "migrate")
	const says = "this program is older than the database's schema: the schema has version 90002 and may be used by programs that know version 90001"
	probe := func(address string) (status int, text string) {
		response, err := http.Get(address)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(body)
	}
	wait.UntilNone(t, func() string {
		if err := runtime.Spec.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
			return fmt.Sprintf("the runtime of before is ready: %v", err)
		}
		return ""
	})
	for _, round := range []func(context.Context) error{tenant.rest, tenant.mcp, tenant.tus} {
		// While the runtime knows the key from before, a tool returns the error.
		if err := round(t.Context()); err == nil || !strings.Contains(err.Error(), "503") && !strings.Contains(err.Error(), `"mediastack.dev/code":"unavailable"`) {
			t.Errorf("a request to the runtime of before: %v", err)
		}
	}
	wait.UntilNone(t, func() string {
		status, text := probe(fmt.Sprintf("http://127.0.0.1:%d/readyz/installation", s.health))
		if status != http.StatusInternalServerError || !strings.Contains(text, says) {
			return fmt.Sprintf("the operator of before is ready: %d %s", status, text)
		}
		return ""
	})
	for _, args := range [][]string{{"migrate"}, {"purge"}, {"check", "--all"}} {
		if code, text := s.command(former, args...); code == 0 || !strings.Contains(text, says) {
			t.Errorf("%q of before: exit code %d: %s", args, code, text)
		}
	}

	replacement := s.replaceRuntimes(after, runtime)
	must(t, replacement[0].Spec.Ready(t.Context()))
	for _, round := range []func(context.Context) error{tenant.rest, tenant.mcp, tenant.tus} {
		must(t, round(t.Context()))
	}
	tenant.check(t)
}
