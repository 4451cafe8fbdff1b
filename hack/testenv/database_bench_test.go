package testenv_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/postgres"
)

// BenchmarkDatabase compares the ways to a database with the schema of the product and nothing else.
func BenchmarkDatabase(b *testing.B) {
	b.Run("copied", func(b *testing.B) {
		testenv.Postgres(b)
		for b.Loop() {
			testenv.Postgres(b)
		}
	})
	b.Run("migrated", func(b *testing.B) {
		testenv.EmptyPostgres(b)
		for b.Loop() {
			if err := postgres.Migrate(b.Context(), postgres.Config{DatabaseURL: testenv.EmptyPostgres(b)}, slog.New(slog.DiscardHandler)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("emptied", func(b *testing.B) {
		conn, err := pgx.Connect(b.Context(), testenv.Postgres(b))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		rows, err := conn.Query(b.Context(), "SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('goose_db_version', 'installation')")
		if err != nil {
			b.Fatal(err)
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := conn.Exec(b.Context(), fmt.Sprintf("TRUNCATE %s RESTART IDENTITY CASCADE", strings.Join(tables, ", "))); err != nil {
				b.Fatal(err)
			}
		}
	})
}
