package postgres_test

import (
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/settings"
)

// newKey inserts a key of the only app.
const newKey = `INSERT INTO api_key (id, account_id, app_id, hash, generation, sequence, object_uid, overlap) SELECT gen_random_uuid(), account_id, id, sha256('key'), 1, 1, '', 0 FROM app`

func TestVersions_ChangeWithWhatTheyStandForOnly(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	exec := func(sql string) func() {
		return func() {
			t.Helper()
			tag, err := conn.Exec(t.Context(), sql)
			must(t, err)
			if tag.RowsAffected() == 0 {
				t.Fatalf("%s changed nothing", sql)
			}
		}
	}
	read := func() account.Version {
		t.Helper()
		var all []account.Version
		must(t, registry(store).EachVersion(t.Context(), nil, func(v account.Version) { all = append(all, v) }))
		some, err := store.Accounts.Versions(t.Context(), []uuid.UUID{scope.AccountID, uuid.New()})
		must(t, err)
		if len(all) != 1 || len(some) != 1 || all[0] != some[0] || all[0].ID != scope.AccountID || all[0].Name != spec.Name || all[0].Namespace != spec.Namespace {
			t.Fatalf("versions are %+v and %+v", all, some)
		}
		return all[0]
	}
	width := 300
	for _, step := range []struct {
		name              string
		change            func()
		account, settings bool
	}{
		{"nothing", func() {}, false, false},
		{"a cap", exec(`UPDATE account SET max_storage = max_storage + 1`), true, false},
		{"another MediaAccount", exec(`UPDATE account SET object_uid = 'another'`), true, true},
		{"a key", exec(newKey), true, false},
		{"the end of a key", exec(`UPDATE api_key SET expires_at = now()`), true, false},
		{"a deleted key", exec(`DELETE FROM api_key`), true, false},
		{"a new app", exec(`INSERT INTO app (id, account_id, name) SELECT gen_random_uuid(), id, 'more' FROM account`), true, false},
		{"a tenant's setting", func() {
			must(t, check.ErrorOf(settings.NewService(store.Settings).Update(t.Context(), scope.AccountID, account.Actor{}, settings.Layer{ThumbnailWidth: &width})))
		}, false, true},
		{"a pin", func() {
			must(t, store.Settings.Pin(t.Context(), scope.AccountID, settings.Layer{ThumbnailHeight: &width}, settings.Object{Name: "team-a/site", UID: "uid"}))
		}, false, true},
		{"a removed pin", func() { must(t, store.Settings.Unpin(t.Context(), "uid")) }, false, true},
		{"an upload", exec(`UPDATE account_usage SET bytes = bytes + 1`), false, false},
	} {
		before := read()
		step.change()
		if after := read(); (before.Account != after.Account) != step.account || (before.Settings != after.Settings) != step.settings {
			t.Errorf("%s: %+v became %+v", step.name, before, after)
		}
	}
	exec(`UPDATE account SET closed_at = now()`)()
	must(t, registry(store).EachVersion(t.Context(), nil, func(v account.Version) { t.Errorf("a closed account has a version: %+v", v) }))
}

// The parts add up to what counts against the cap, whatever runs meanwhile.
func TestHoldings_AreThoseOfTheCounters(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	for _, sql := range []string{
		`UPDATE account_usage SET bytes = 100`,
		`UPDATE app_total SET bytes = 30, public_items = 1 WHERE slot = 0`,
		`UPDATE app_total SET bytes = 10, private_items = 2 WHERE slot = 1`,
		`INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends) SELECT gen_random_uuid(), account_id, id, 25, now() FROM app`,
		newKey,
		`INSERT INTO api_key_use (key_id, last_used_at) SELECT id, '2026-01-02' FROM api_key`,
	} {
		tag, err := conn.Exec(t.Context(), sql)
		must(t, err)
		if tag.RowsAffected() == 0 {
			t.Fatalf("%s changed nothing", sql)
		}
	}
	want := account.Usage{Used: 100, SealedItems: 3, SealedBytes: 40, Reserved: 25, DraftBytes: 35}
	usage, err := store.Accounts.Usage(t.Context(), scope.AccountID)
	must(t, err)
	visited := 0
	must(t, registry(store).EachHolding(t.Context(), []string{spec.Namespace}, func(h account.Holding) {
		visited++
		if h.Usage != want || h.LastUsedAt.Year() != 2026 || h.ID != scope.AccountID {
			t.Errorf("the holding is %+v", h)
		}
	}))
	must(t, registry(store).EachHolding(t.Context(), []string{"elsewhere"}, func(account.Holding) { visited++ }))
	if usage != want || visited != 1 {
		t.Errorf("the usage is %+v, want %+v; %d holdings", usage, want, visited)
	}
}

// A new account once took three transactions, and a key of it a fourth.
func TestEnsure_CreatesAnAccountWithItsAppsAndKeysInOneTransaction(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accounts := registry(store)
	provision, err := accounts.NewProvision([]string{"web"}, 3)
	must(t, err)
	whole := spec
	whole.Provision = provision
	made, err := accounts.Ensure(t.Context(), whole)
	must(t, err)
	conn := connect(t, url)
	var transactions, rows int
	must(t, conn.QueryRow(t.Context(), `SELECT count(DISTINCT x), count(*) FROM (
		SELECT xmin::text AS x FROM account UNION ALL SELECT xmin::text FROM account_usage UNION ALL SELECT xmin::text FROM app
		UNION ALL SELECT xmin::text FROM app_total UNION ALL SELECT xmin::text FROM api_key) AS written`).Scan(&transactions, &rows))
	if transactions != 1 || rows != 1+1+2+2*16+2 {
		t.Errorf("%d rows of %d transactions", rows, transactions)
	}
	open, others, err := accounts.OpenApps(t.Context(), made.ID, []string{"web"})
	must(t, err)
	keys, err := accounts.Keys(t.Context(), made.ID)
	must(t, err)
	if len(open) != 2 || len(others) != 0 || made.ID != provision.AccountID {
		t.Fatalf("the account %s has the apps %v and %v", made.ID, open, others)
	}
	for i, app := range open {
		valid := keys.Apps[app.ID].Valid
		if len(valid) != 1 || !valid[0].Pending() || valid[0].Generation != 3 || valid[0].ObjectUID != spec.ObjectUID || !provision.Apps[i].Secret.Hash().Equal(valid[0].Hash) {
			t.Errorf("app %s has the keys %+v", app.Name, valid)
			continue
		}
		must(t, accounts.DeliverKey(t.Context(), valid[0], spec.ObjectUID))
	}
	again, err := accounts.NewProvision(nil, 1)
	must(t, err)
	whole.Provision = again
	if found, err := accounts.Ensure(t.Context(), whole); err != nil || found.ID != made.ID {
		t.Errorf("an account that exists is %s, %v", found.ID, err)
	}
	if keys, err := accounts.Keys(t.Context(), made.ID); err != nil || len(keys.Apps) != 2 {
		t.Errorf("its apps are %v, %v", keys.Apps, err)
	}
}
