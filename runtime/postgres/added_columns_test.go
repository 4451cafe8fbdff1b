package postgres_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// texts returns the texts in the Go files that a pattern names, by the names of their constants and otherwise by their positions.
func texts(t *testing.T, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	must(t, err)
	found := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			must(t, err)
			found[files.Position(literal.Pos()).String()] = text
			return true
		})
	}
	return found
}

// statements are those that sqlc has generated.
func statements(t *testing.T) map[string]string {
	t.Helper()
	found := texts(t, "internal/sqlgen/*.sql.go")
	for name, text := range found {
		if !strings.HasPrefix(text, "-- name: ") {
			delete(found, name)
		}
	}
	if len(found) < 200 {
		t.Fatalf("only %d statements were found", len(found))
	}
	return found
}

// stale returns the prepared statements that cannot be executed any more, with the error.
func stale(t *testing.T, conn *pgx.Conn, prepared map[string]*pgconn.StatementDescription) map[string]error {
	t.Helper()
	failed := map[string]error{}
	for name, statement := range prepared {
		explain := "EXPLAIN EXECUTE " + pgx.Identifier{statement.Name}.Sanitize()
		if n := len(statement.ParamOIDs); n > 0 {
			explain += "(" + strings.TrimSuffix(strings.Repeat("NULL,", n), ",") + ")"
		}
		if _, err := conn.Exec(t.Context(), explain, pgx.QueryExecModeSimpleProtocol); err != nil {
			failed[name] = err
		}
	}
	return failed
}

// A program continues while a later version adds columns: its prepared statements stay valid, and return the same.
func TestStatements_SurviveAddedColumns(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	prepared := map[string]*pgconn.StatementDescription{}
	everything := map[string]string{"SELECT *": "SELECT * FROM app"} // which shows that the test would notice
	for name, text := range statements(t) {
		everything[name] = text
	}
	for _, filter := range []media.Filter{{}, {Access: media.Public}, {Group: "g"}, {Access: media.Public, Group: "g"}} {
		for _, offset := range []int{0, 1_000_000} {
			everything[fmt.Sprintf("the list %v from %d", filter, offset)], _ = postgres.ListStatement(media.Scope{}, filter, 10, offset)
		}
	}
	for _, query := range []media.Query{{Search: media.Search{Name: "abc"}}, {Drafts: true}, {Order: media.Order{By: media.ByName}}} {
		for what, search := range postgres.SearchStatements(media.Scope{}, query, nil, 10) {
			everything[fmt.Sprintf("the search %v: %s", query, what)] = search.SQL
		}
	}
	for name, text := range everything {
		prepared[name], err = conn.Prepare(t.Context(), fmt.Sprintf("s%d", len(prepared)), text)
		must(t, err)
	}
	for name, err := range stale(t, conn, prepared) {
		t.Fatalf("%s: %v", name, err)
	}
	_, err = conn.Exec(t.Context(), `DO $$ DECLARE t text; BEGIN
			FOR t IN SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace LOOP
				EXECUTE format('ALTER TABLE %I ADD COLUMN added_later text, ADD COLUMN added_with_default integer NOT NULL DEFAULT 7', t);
			END LOOP; END $$;
		CREATE OR REPLACE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL`)
	must(t, err)
	failed := stale(t, conn, prepared)
	if err := failed["SELECT *"]; err == nil || !strings.Contains(err.Error(), "cached plan must not change result type") {
		t.Errorf("SELECT *: %v", err)
	}
	delete(failed, "SELECT *")
	for name, err := range failed {
		t.Errorf("%s: %v", name, err)
	}
}

// The functions of the database run for programs of several versions.
func TestStatements_AndFunctionsNameTheirColumns(t *testing.T) {
	t.Parallel()
	unnamed := regexp.MustCompile(`(?i)\b(SELECT|RETURNING)\s+(\w+\.)?\*|INSERT\s+INTO\s+\w+\s+(VALUES|SELECT)\b|%ROWTYPE`)
	checked := statements(t)
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
	must(t, err)
	var name, body string
	functions := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &body}, func() error {
		checked["the function "+name] = body
		functions++
		return nil
	})
	must(t, err)
	if functions == 0 {
		t.Error("the schema has no functions")
	}
	for name, text := range checked {
		if found := unnamed.FindString(text); found != "" {
			t.Errorf("%s: %q does not name its columns", name, found)
		}
	}
	for _, text := range []string{"SELECT * FROM app", "DELETE FROM a RETURNING a.*", "INSERT INTO app VALUES (1)", "insert into app select 1"} {
		if !unnamed.MatchString(text) {
			t.Errorf("the test does not notice %q", text)
		}
	}
}

// No migration may change the type of a column. If one does, as an administrator by hand, a statement outside of a transaction is
// repeated, and a transaction fails once: every connection once had an error for each of its statements.
func TestStalePlan_IsRepeated(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := newRetrying(t, url, url, func(c *postgres.Config) { c.DatabaseConns = 1 })
	find := func() error {
		_, err := store.Accounts.FindAccount(t.Context(), store.account.Namespace, store.account.Name)
		return err
	}
	inTransaction := func() error {
		_, err := store.Accounts.AcceptKey(t.Context(), account.Key{AppID: store.scope.AppID, Sequence: -1})
		return err
	}
	must(t, find())
	must(t, inTransaction())
	statement(t, url, "ALTER TABLE account ALTER COLUMN display_name TYPE varchar(1000); ALTER TABLE app ALTER COLUMN name TYPE varchar(1000)")
	must(t, find())
	must(t, inTransaction()) // on a connection without stale plans

	statement(t, url, "ALTER TABLE account ALTER COLUMN display_name TYPE text; ALTER TABLE app ALTER COLUMN name TYPE text")
	if err := inTransaction(); !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != "" || !strings.Contains(fault.From(err).Public, "has just been changed") {
		t.Errorf("a transaction with a stale plan: %v", err)
	}
	must(t, inTransaction())
	must(t, find())
}
