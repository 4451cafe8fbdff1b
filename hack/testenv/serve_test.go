package testenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
)

// childEnv makes TestServe_Child print what it is given.
const childEnv = "MEDIASTACK_TESTENV_CHILD"

func TestServe_ProcessesShareServersAndNoDatabase(t *testing.T) {
	t.Parallel()
	socket, _, err := testenv.Serve() // Main stops the servers, which other tests use, too
	must(t, err)
	seen := map[string]bool{}
	var server, store string
	for range 2 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServe_Child$", "-test.v")
		child.Env = append(os.Environ(), testenv.ServersEnv+"="+socket, childEnv+"=1")
		out, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got := regexp.MustCompile(`child: (\S+) (\S+) (\S+)`).FindStringSubmatch(string(out))
		if got == nil {
			t.Fatalf("it printed %s", out)
		}
		if seen[got[2]] {
			t.Errorf("two processes have the database %s", got[2])
		}
		seen[got[2]] = true
		if server != "" && (got[1] != server || got[3] != store) {
			t.Errorf("the processes have the servers %s and %s, and %s and %s", server, got[1], store, got[3])
		}
		server, store = got[1], got[3]
	}
	if own := testenv.S3(t).Endpoint; os.Getenv(testenv.ServersEnv) == "" && own != store {
		t.Errorf("the served store is %s, not the own one, %s", store, own)
	}
}

func TestServe_Child(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return // it is a part of the test above
	}
	url := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var database, started string
	var items int
	must(t, conn.QueryRow(t.Context(), "SELECT current_database(), pg_postmaster_start_time()::text, (SELECT count(*) FROM stored_item)").Scan(&database, &started, &items))
	if items != 0 {
		t.Errorf("the database has %d items", items)
	}
	fmt.Println("child:", strings.ReplaceAll(started, " ", "T"), database, testenv.S3(t).Endpoint)
}

// Each database is an installation of its own, as one that was migrated is.
func TestPostgres_IsAnInstallationOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
		must(t, err)
		defer func() { _ = conn.Close(t.Context()) }()
		var id, token, proof string
		must(t, conn.QueryRow(t.Context(), "SELECT id::text, token::text, proof_key::text FROM installation WHERE server = '' AND epoch = 1 AND heartbeat = 0").Scan(&id, &token, &proof))
		for _, value := range []string{id, token, proof} {
			if seen[value] {
				t.Errorf("two databases have %s", value)
			}
			seen[value] = true
		}
	}
}
