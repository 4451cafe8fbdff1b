package main

import (
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// Every command that uses the database rejects the database of another cell, and says what to set.
func TestCommands_RejectTheDatabaseOfAnotherCell(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	s := prepared(t, database, testenv.S3(t)) // cell 0
	for _, c := range []struct {
		args []string
		code int
	}{
		{append([]string{"serve", "--base-url=http://media.test", "--secret=" + goodSecret, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--image-enabled=false"}, s.stores...), exitUsage},
		{[]string{"migrate", "--database-url=" + database}, exitUsage},
		{append([]string{"purge"}, s.stores...), exitActionRequired},
	} {
		var logs buffer
		code := run(t.Context(), append(c.args, "--cell=7"), stdio{out: &logs, err: &logs})
		if code != c.code || !strings.Contains(logs.String(), "mediastack-runtime: the database is that of cell 0, and SERVICE_CELL is 7: set SERVICE_CELL to 0") {
			t.Errorf("%s ended with %d: %s", c.args[0], code, logs.String())
		}
	}
	var logs buffer
	if code := run(t.Context(), []string{"migrate", "--database-url=" + database, "--cell=4096"}, stdio{out: &logs, err: &logs}); code != exitUsage || !strings.Contains(logs.String(), "SERVICE_CELL must be from 0 to 4095, not 4096") {
		t.Errorf("it ended with %d: %s", code, logs.String())
	}
}
