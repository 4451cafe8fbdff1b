package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/journal"
)

// The process that carries out what an owner has allowed is killed again and again. Whenever it dies, the changes that were made are those whose
// steps say so, and in the end each was made once.
func TestKilledRuntime_CarriesOutWhatIsAllowedOnce(t *testing.T) {
	t.Parallel()
	const drafts, kills = 150, 10
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	env := runtimetest.NewWith(t, database, s3)
	r := &twoRuntimes{Env: env, storeFlags: storesOf(database, s3)}
	r.tenant = r.Tenant(t, account.Spec{Name: "one", Owners: []string{"ana@people.example"}, MaxStorage: 64 << 20, MaxUploadSize: 1 << 20, Journal: time.Hour,
		ToolPolicy: account.ToolPolicy{Approval: account.Approval{Delete: account.RuleAlways}}})
	start := func() *testenv.RuntimeProcess {
		return testenv.Runtime(t, testenv.RuntimeConfig{Secret: goodSecret, Stores: testenv.StoreSettings(database, s3),
			Env: []string{"SERVICE_INSTANCE_TIMEOUT=10s", "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_IMAGE_ENABLED=false"}})
	}
	process := start()
	service, err := approval.New(approval.Deps{Store: env.Store.Approvals, NewID: env.Store.Cell().NewID})
	must(t, err)
	p := account.Principal{Account: r.tenant.Account, App: r.tenant.App, Key: account.Key{ID: r.tenant.KeyID}}
	p.Account.ToolPolicy = r.tenant.Spec.ToolPolicy
	caller := approval.Caller{Principal: p.AsConnection(account.ConnectionOfKey(r.tenant.KeyID))}
	var asked approval.Approval
	for n := range drafts {
		status, _, text := r.send(t.Context(), process, strings.NewReader(fmt.Sprint("draft ", n)))
		var draft struct{ MediaID uuid.UUID }
		if status != http.StatusCreated || json.Unmarshal([]byte(text), &draft) != nil {
			t.Fatalf("upload: %d %s", status, text)
		}
		asked, err = service.Ask(t.Context(), caller, approval.Request{Operation: account.DeleteMedia, Items: []uuid.UUID{draft.MediaID}})
		must(t, err)
	}
	connection := testenv.Connections(t, database)
	// Each change takes 20 ms, so kills meet them on a fast machine, too.
	_, err = connection.Exec(t.Context(), `
		CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
		CREATE TRIGGER linger BEFORE UPDATE ON approval_step FOR EACH ROW EXECUTE FUNCTION linger()`)
	must(t, err)
	must(t, service.Decide(t.Context(), approval.Decision{ID: asked.ID, AccountID: asked.AccountID, Revision: asked.Revision, Allow: true, By: r.tenant.Account.Owners[0]}))
	// state reads all in one statement: the server may go on with the last statement of a process that was killed.
	state := func() (steps, made, items int64) {
		must(t, connection.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM approval_step WHERE approval_id = $1 AND state = 'done'),
			(SELECT count(*) FROM journal WHERE type = $2), (SELECT count(*) FROM item)`, asked.ID, string(journal.MediaDeleted)).Scan(&steps, &made, &items))
		return steps, made, items
	}
	done := func() int64 {
		steps, _, _ := state()
		return steps
	}
	// succeed starts the next process. All before it are dead, so their leases end at once, and its own counts as old enough to tell.
	succeed := func() {
		r.QueryInt(t, `WITH dead AS (UPDATE runtime_instance SET lease_ends = now() - interval '1 second' RETURNING 1) SELECT count(*) FROM dead`)
		process = start()
		testwait.Until(t, "the next process has a lease", func() bool {
			return r.QueryInt(t, `WITH next AS (UPDATE runtime_instance SET alive_since = now() - interval '1 hour' WHERE lease_ends > now() RETURNING 1) SELECT count(*) FROM next`) == 1
		})
	}
	killed := 0
	for ; killed < kills && done() < drafts; killed++ {
		before := done()
		testwait.Until(t, "a change was made", func() bool { return done() > before })
		process.Kill()
		if steps, made, items := state(); steps != made || made+items != drafts {
			t.Fatalf("after kill %d, %d steps are done, and %d changes were made", killed+1, steps, made)
		}
		succeed()
	}
	testwait.Until(t, "all changes are made", func() bool { return done() == drafts })
	t.Logf("%d kills", killed)
	if killed < 3 {
		t.Errorf("the process was killed %d times while it carried changes out", killed)
	}
	r.Counts(t, drafts, "deletes", `SELECT count(*) FROM journal WHERE type = $1`, string(journal.MediaDeleted))
	r.Counts(t, drafts, "items that were deleted", `SELECT count(DISTINCT item_id) FROM journal WHERE type = $1`, string(journal.MediaDeleted))
	r.swept(t, 0)
}
