package postgres_test

import (
	"fmt"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/postgres"
)

// A pooled session that began while transactions were read-only by default stayed so for as long as it lived, if it was used all the time.
func TestStore_UsesNoSessionThatIsReadOnlyForLong(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	admin := connect(t, url)
	set := func(value string) {
		t.Helper()
		for _, statement := range []string{"BEGIN", "SET TRANSACTION READ WRITE", fmt.Sprintf("ALTER DATABASE %q SET default_transaction_read_only = %s", databaseOf(t, url), value), "COMMIT"} {
			must(t, check.ErrorOf(admin.Exec(t.Context(), statement)))
		}
	}
	set("on")
	store, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: url, DatabaseConns: 4})
	must(t, err)
	t.Cleanup(store.Close)
	if _, err := store.CheckWritable(t.Context()); err == nil {
		t.Fatal("the database is not read-only")
	}
	set("off")
	// Nothing of this lets a connection be idle.
	wait.Until(t, "changes are accepted again", func() bool { _, err := store.CheckWritable(t.Context()); return err == nil })
}
