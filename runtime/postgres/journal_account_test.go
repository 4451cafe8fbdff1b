package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/settings"
)

// journalEnv is an account with its Default App, without a key.
type journalEnv struct {
	*keyEnv
	spec     account.Spec
	settings *settings.Service
	read     int64 // the last event that was read
}

func newJournalEnv(t *testing.T, retention time.Duration) *journalEnv {
	t.Helper()
	e := &journalEnv{keyEnv: newKeyEnv(t), spec: spec}
	e.settings = settings.NewService(e.store.Settings)
	e.update(func(s *account.Spec) { s.Journal = retention })
	return e
}

// update applies a changed MediaAccount.
func (e *journalEnv) update(change func(*account.Spec)) {
	e.t.Helper()
	change(&e.spec)
	must(e.t, check.ErrorOf(e.Ensure(e.t.Context(), e.spec)))
}

// events returns the events since the last call, each as "type of app by actor: fields". It reports an error for one with what
// only events of items have.
func (e *journalEnv) events() []string {
	e.t.Helper()
	rows, err := testenv.Connections(e.t, e.url).Query(e.t.Context(), `SELECT j.id, j.type || coalesce(' of ' || app.name, '') || ' by ' || j.actor || coalesce(': ' || array_to_string(nullif(j.fields, '{}'), ' '), ''),
			j.account_id = $1 AND j.item_id IS NULL AND j.sequence IS NULL AND j.group_label = '' AND j.epoch = (SELECT epoch FROM installation) AND (j.app_id IS NULL OR app.id IS NOT NULL)
		FROM journal j LEFT JOIN app ON app.id = j.app_id WHERE j.id > $2 ORDER BY j.id`, e.id, e.read)
	must(e.t, err)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (text string, err error) {
		var plain bool
		if err = row.Scan(&e.read, &text, &plain); err == nil && !plain {
			e.t.Errorf("%s: the event is of an item, or of another account, app or epoch", text)
		}
		return text, err
	})
	must(e.t, err)
	return found
}

// change is a change of an account, and the events that it has.
type change struct {
	name string
	make func(e *journalEnv)
	want []string
}

// The operator's actor, as the journal has it.
const byOperator = ` by {"kind":"operator"}`

// changesOfAccount are made one after the other.
func changesOfAccount() []change {
	var token account.KeySecret
	var newest account.Key
	tenant := account.Actor{Kind: account.ActorLogin, ID: "42", Name: "An assistant", Email: "a***@example.org"}
	byTenant := ` by {"kind":"login","id":"42","name":"An assistant","email":"a***@example.org"}`
	deliver := func(e *journalEnv) { must(e.t, e.DeliverKey(e.t.Context(), newest, "uid")) }
	add := func(overlap time.Duration) func(*journalEnv) {
		return func(e *journalEnv) { token, newest = e.add(overlap) }
	}
	set := func(change settings.Layer) func(*journalEnv) {
		return func(e *journalEnv) {
			must(e.t, check.ErrorOf(e.settings.Update(e.t.Context(), e.id, tenant, change)))
		}
	}
	pin := func(pins settings.Layer, by string) func(*journalEnv) {
		return func(e *journalEnv) {
			must(e.t, e.settings.Pin(e.t.Context(), e.id, pins, settings.Object{Name: "team-a/" + by, UID: "uid of " + by}))
		}
	}
	unpin := func(by string) func(*journalEnv) {
		return func(e *journalEnv) { must(e.t, e.settings.Unpin(e.t.Context(), "uid of "+by)) }
	}
	return []change{
		{"the account is suspended", func(e *journalEnv) { e.update(func(s *account.Spec) { s.Suspended = true }) }, []string{"account.suspended" + byOperator}},
		{"it stays suspended with another cap", func(e *journalEnv) { e.update(func(s *account.Spec) { s.MaxStorage++ }) }, nil},
		{"it is resumed", func(e *journalEnv) { e.update(func(s *account.Spec) { s.Suspended = false }) }, []string{"account.resumed" + byOperator}},
		{"it has the same spec", func(e *journalEnv) { e.update(func(*account.Spec) {}) }, nil},

		{"the app has its first key", add(0), []string{"key.issued of default" + byOperator}},
		{"a Secret holds it", deliver, nil},
		{"the app has another key", add(time.Hour), []string{"key.issued of default" + byOperator}},
		{"it is replaced, as no Secret holds it", add(time.Hour), nil},
		{"a Secret holds it, so the first one ends after the overlap", deliver, []string{"key.ended of default" + byOperator}},
		{"the app has a third key", add(0), []string{"key.issued of default" + byOperator}},
		{"a Secret holds it, so the second one ends at once, and the first one does no later", deliver, []string{"key.ended of default" + byOperator}},

		{"the tenant changes two settings", set(settings.Layer{UseWebP: value(true), ThumbnailWidth: value(64)}), []string{"settings.changed" + byTenant + ": thumbnailWidth useWebP"}},
		{"the tenant changes one of them", set(settings.Layer{UseWebP: value(true), ThumbnailWidth: value(65)}), []string{"settings.changed" + byTenant + ": thumbnailWidth"}},
		{"the tenant sets what is set", set(settings.Layer{UseWebP: value(true), ThumbnailWidth: value(65)}), nil},
		{"the store is told to set what is set", func(e *journalEnv) {
			must(e.t, check.ErrorOf(e.store.Settings.UpdateTenant(e.t.Context(), e.id, tenant, func(settings.Layers) (settings.Layer, error) {
				return settings.Layer{ThumbnailWidth: value(65)}, nil
			})))
		}, nil},
		{"the tenant sets presets", set(settings.Layer{Pictures: settings.Pictures{Presets: &[]settings.Preset{{Name: "card", Width: 300}}}}), []string{"settings.changed" + byTenant + ": presets"}},

		{"a MediaSettings pins a setting and a limit", pin(settings.Layer{WebPOutputQuality: value(70), Ceilings: settings.Ceilings{MaxSignatureSeconds: value(600)}}, "site"), []string{"settings.changed" + byOperator + ": maxSignatureSeconds webpOutputQuality"}},
		{"it pins the same", pin(settings.Layer{WebPOutputQuality: value(70), Ceilings: settings.Ceilings{MaxSignatureSeconds: value(600)}}, "site"), nil},
		{"another one pins the same", pin(settings.Layer{WebPOutputQuality: value(70), Ceilings: settings.Ceilings{MaxSignatureSeconds: value(600)}}, "other"), nil},
		{"it pins another value, and another setting instead of the limit", pin(settings.Layer{WebPOutputQuality: value(71), ThumbnailHeight: value(80)}, "other"), []string{"settings.changed" + byOperator + ": maxSignatureSeconds thumbnailHeight webpOutputQuality"}},
		{"one that pins nothing is deleted", unpin("site"), nil},
		{"the other one is deleted", unpin("other"), []string{"settings.changed" + byOperator + ": thumbnailHeight webpOutputQuality"}},

		{"an app is opened, with a key", func(e *journalEnv) {
			apps, _, err := e.OpenApps(e.t.Context(), e.id, []string{"web"})
			must(e.t, err)
			_, _, err = e.IssueKey(e.t.Context(), apps[1].ID, 1, 0)
			must(e.t, err)
		}, []string{"key.issued of web" + byOperator}},
		{"it is closed", func(e *journalEnv) {
			_, others, err := e.OpenApps(e.t.Context(), e.id, nil)
			must(e.t, err)
			must(e.t, e.CloseApps(e.t.Context(), e.id, others))
		}, []string{"key.ended of web" + byOperator}},
		{"it is closed again", func(e *journalEnv) {
			exec(e.t, e.url, `UPDATE app SET closed_at = NULL WHERE name = 'web'`)
			_, others, err := e.OpenApps(e.t.Context(), e.id, nil)
			must(e.t, err)
			must(e.t, e.CloseApps(e.t.Context(), e.id, others))
		}, nil},
		{"the account is closed", func(e *journalEnv) { e.close() }, []string{"key.ended of default" + byOperator}},
		{"it is opened again, with its key", func(e *journalEnv) {
			e.reopen()
			if !e.accept(token, e.sign(token, newest.Sequence)) {
				e.t.Error("the key of the Secret is not accepted")
			}
		}, []string{"key.issued of default" + byOperator}},
		{"the account is closed once more", func(e *journalEnv) { e.close() }, []string{"key.ended of default" + byOperator}},
		{"it is opened again, with a later key of which only a Secret knew", func(e *journalEnv) {
			e.reopen()
			proof := e.sign(token, newest.Sequence)
			e.forget(0)
			if !e.accept(token, proof) {
				e.t.Error("the key of the Secret is not accepted")
			}
		}, []string{"key.issued of default" + byOperator}},
		{"a MediaSettings pins a setting", pin(settings.Layer{UseWebP: value(true)}, "site"), []string{"settings.changed" + byOperator + ": useWebP"}},
		{"the account is erased", func(e *journalEnv) {
			e.close()
			exec(e.t, e.url, `UPDATE account SET erase_after = now(), erasing_at = now()`)
		}, []string{"key.ended of default" + byOperator}},
		{"the MediaSettings is deleted meanwhile", unpin("site"), nil},
	}
}

// sign returns the proof of a key with a sequence number, as its Secret has it.
func (e *journalEnv) sign(token account.KeySecret, sequence int64) string {
	e.t.Helper()
	keys, err := e.Keys(e.t.Context(), e.id)
	must(e.t, err)
	return keys.ProofKey.Sign(e.id, e.app.Name, account.Key{Hash: token.Hash(), Generation: 1, Sequence: sequence})
}

func TestJournal_HasEachChangeOfAnAccountOnce(t *testing.T) {
	t.Parallel()
	e := newJournalEnv(t, 24*time.Hour)
	for _, c := range changesOfAccount() {
		c.make(e)
		if got := e.events(); !slices.Equal(got, c.want) {
			t.Errorf("%s: the journal has %q, want %q", c.name, got, c.want)
		}
	}
}

func TestJournal_OfAnAccountWithoutOneIsEmpty(t *testing.T) {
	t.Parallel()
	e := newJournalEnv(t, 0)
	for _, c := range changesOfAccount() {
		c.make(e)
		if got := e.events(); len(got) > 0 {
			t.Errorf("%s: the journal has %q", c.name, got)
		}
	}
}

// Each change of an account whose journal begins or ends with it.
func TestJournal_BeginsAndEndsWithTheSpec(t *testing.T) {
	t.Parallel()
	e := newJournalEnv(t, 0)
	e.update(func(s *account.Spec) { s.Journal, s.Suspended = time.Hour*24, true })
	if got, want := e.events(), []string{"account.suspended" + byOperator}; !slices.Equal(got, want) {
		t.Errorf("a suspension with a new journal: %q, want %q", got, want)
	}
	e.update(func(s *account.Spec) { s.Journal, s.Suspended = 0, false })
	if got := e.events(); len(got) > 0 {
		t.Errorf("the end of the suspension and of the journal: %q", got)
	}
}

// The keys of a new account are inserted by the statement that inserts the account.
func TestJournal_HasTheKeysOfANewAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retention time.Duration
		want      []string
	}{
		"with a journal": {24 * time.Hour, []string{"key.issued of default" + byOperator, "key.issued of web" + byOperator}},
		"without one":    {0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, url := setup(t)
			r := registry(store)
			provision, err := r.NewProvision([]string{"web"}, 1)
			must(t, err)
			wanted := spec
			wanted.Journal, wanted.Provision = c.retention, provision
			made, err := r.Ensure(t.Context(), wanted)
			must(t, err)
			e := &journalEnv{keyEnv: &keyEnv{t: t, url: url, id: made.ID}}
			got := e.events()
			slices.Sort(got) // the apps of one statement have no order
			if !slices.Equal(got, c.want) {
				t.Errorf("the journal has %q, want %q", got, c.want)
			}
		})
	}
}

// A change that is rolled back has no event.
func TestJournal_ForgetsChangesThatAreRolledBack(t *testing.T) {
	t.Parallel()
	e := newJournalEnv(t, 24*time.Hour)
	e.add(0)
	e.events()
	tx, err := connect(t, e.url).Begin(t.Context())
	must(t, err)
	for _, statement := range []string{
		`UPDATE account SET suspended = true`,
		`UPDATE api_key SET expires_at = now()`,
		`INSERT INTO api_key (id, account_id, app_id, hash, generation, sequence, object_uid, overlap) SELECT gen_random_uuid(), account_id, id, sha256('key'), 1, 2, '', 0 FROM app`,
		`INSERT INTO settings_pin (account_id, pinned_by, object_uid, fields) SELECT id, 'team-a/site', 'uid', '{"useWebP": true}' FROM account`,
	} {
		must(t, check.ErrorOf(tx.Exec(t.Context(), statement)))
	}
	var written int
	must(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM journal WHERE id > $1`, e.read).Scan(&written))
	if written != 4 {
		t.Errorf("the transaction sees %d events, want one for each of its statements", written)
	}
	must(t, tx.Rollback(t.Context()))
	if got := e.events(); len(got) > 0 {
		t.Errorf("the journal has %q", got)
	}
}

// A take-over that locked the journal before the accounts, and a tenant who changes settings, waited for each other.
func TestTakeOver_AndAChangeOfSettingsBothEnd(t *testing.T) {
	t.Parallel()
	e := newJournalEnv(t, 24*time.Hour)
	must(t, check.ErrorOf(e.store.Installations.BindInstallation(t.Context(), "cluster-a")))
	took, other := make(chan error, 1), open(t, e.url)
	_, err := e.store.Settings.UpdateTenant(t.Context(), e.id, account.Actor{Kind: account.ActorKey}, func(settings.Layers) (settings.Layer, error) {
		go func() {
			_, _, err := other.Installations.TakeOver(context.WithoutCancel(t.Context()), installation.Takeover{ClusterUID: "cluster-b", OldClusterUID: "cluster-a", OldEpoch: 1})
			took <- err
		}()
		wait.Until(t, "the take-over waits for the account", func() bool { return waiting(t, e.url) > 0 })
		return settings.Layer{UseWebP: value(true)}, nil
	})
	if err != nil {
		t.Errorf("the change of settings: %v", err)
	}
	if err := wait.Receive(t, "the take-over ends", took); err != nil {
		t.Errorf("the take-over: %v", err)
	}
}
