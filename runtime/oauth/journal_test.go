package oauth_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/purge"
)

// journaled is an account with a journal.
type journaled struct {
	*env
	read int64 // the last event that was read
}

func newJournaled(t *testing.T, change func(*account.Spec)) *journaled {
	t.Helper()
	w := &journaled{env: newEnv(t, func(cfg *oauth.Config) { cfg.CodesPerEmail, cfg.AttemptsPerEmail, cfg.CodesPerIP = 100, 100, 100 })}
	w.ensure(t, func(s *account.Spec) { s.Journal = 24 * time.Hour })
	w.tenant.Spec.Journal = 24 * time.Hour
	if change != nil {
		w.ensure(t, change)
	}
	return w
}

// events returns the events of logins and applications of all accounts since the last call, each as "account: type of the actor name email";
// * stands for the id of an authorization. It reports an error for one that is not of the account alone.
func (w *journaled) events(t *testing.T) []string {
	t.Helper()
	rows, err := testenv.Connections(t, w.Database.DatabaseURL).Query(t.Context(), `SELECT j.id, account.name, j.type, j.actor,
			j.app_id IS NULL AND j.item_id IS NULL AND j.fields = '{}' AND (j.actor::jsonb ->> 'id' IS NULL) = (j.type = 'login')
			AND coalesce(j.actor::jsonb ->> 'id' = (SELECT g.id::text FROM oauth_grant g WHERE g.id::text = j.actor::jsonb ->> 'id' AND g.account_id = account.id), j.type = 'login')
		FROM journal j JOIN account ON account.id = j.account_id WHERE (j.type = 'login' OR j.type LIKE 'application.%') AND j.id > $1 ORDER BY j.id`, w.read)
	must(t, err)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var name, kind, actor string
		var plain bool
		if err := row.Scan(&w.read, &name, &kind, &actor, &plain); err != nil {
			return "", err
		}
		var by struct{ Kind, Name, Email string }
		if err := json.Unmarshal([]byte(actor), &by); err != nil || !plain {
			t.Errorf("%s by %s: %v", kind, actor, err)
		}
		return strings.TrimRight(name+": "+kind+" "+by.Kind+" "+by.Name+" "+by.Email, " "), nil
	})
	must(t, err)
	return found
}

// tells reports an error for other events since the last call.
func (w *journaled) tells(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := w.events(t); !slices.Equal(got, want) {
		t.Errorf("%s: the journal tells %q, want %q", what, got, want)
	}
}

const (
	masked        = "a***@example.org"
	loggedInFor   = "studio: login page Test " + masked
	authorized    = "studio: application.authorized login Test " + masked
	revokedPrefix = "studio: application.revoked "
)

func TestJournal_TellsLoginsAndApplications(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	onPage := w.startLogin(t, nil)
	must(t, onPage.sendCode(t, owner))
	w.tells(t, "a code was mailed")
	code := w.mailedCodes(t, owner)[0]
	wrong := "00000000"
	if code == wrong {
		wrong = "00000001"
	}
	if _, err := w.VerifyCode(t.Context(), onPage.session(t), wrong); err == nil {
		t.Error("a wrong code logs in")
	}
	w.tells(t, "a wrong code")
	cookie, err := w.VerifyCode(t.Context(), onPage.session(t), code)
	must(t, err)
	onPage.cookie = cookie
	w.tells(t, "a login on a page", "studio: login page  "+masked)

	tokens := w.authorize(t)
	w.tells(t, "an application is authorized", loggedInFor, authorized)
	tokens, err = w.Refresh(t.Context(), tokens.Refresh, client, "", "")
	must(t, err)
	w.tells(t, "a refresh")
	must(t, w.RevokeToken(t.Context(), tokens.Access, client))
	w.tells(t, "the application ends it", revokedPrefix+"login Test "+masked)
	must(t, w.RevokeToken(t.Context(), tokens.Access, client))
	w.tells(t, "the application ends it again")

	w.authorize(t)
	w.authorize(t)
	w.events(t)
	must(t, check.ErrorOf(w.RevokeApps(t.Context(), onPage.session(t), uuid.Nil)))
	w.tells(t, "the owner ends all", revokedPrefix+"page Test "+masked, revokedPrefix+"page Test "+masked)

	used := w.authorizationCode(t)
	must(t, check.ErrorOf(w.ExchangeCode(t.Context(), tokenRequest(used))))
	w.events(t)
	if _, err := w.ExchangeCode(t.Context(), tokenRequest(used)); err == nil {
		t.Error("a code is used twice")
	}
	w.tells(t, "a code is used again", revokedPrefix+"service Test "+masked)

	rotate := func(generation int64, overlap time.Duration) {
		_, _, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, generation, overlap)
		must(t, err)
	}
	byOperator := revokedPrefix + "operator Test " + masked
	w.authorize(t)
	w.events(t)
	rotate(2, 0)
	w.tells(t, "the key is rotated without an overlap", byOperator)
	w.authorize(t)
	rotate(3, time.Hour)
	w.clock.Advance(2 * time.Hour)
	w.events(t)
	must(t, check.ErrorOf(oauth.Purge(t.Context(), purgeConfig, w.Store.Logins, purge.Batches{Size: 50}, w.clock.Now())))
	w.tells(t, "the overlap of a rotation is over", byOperator)
	w.authorize(t)
	w.events(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	w.tells(t, "the owner is removed", byOperator)
}

// The journal of an account that says so has whole addresses, from then on.
func TestJournal_HasWholeAddressesIfTheAccountSaysSo(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	w.authorize(t)
	w.tells(t, "masked", loggedInFor, authorized)
	w.ensure(t, func(s *account.Spec) { s.FullAddresses = true })
	tokens := w.authorize(t)
	w.tells(t, "full", "studio: login page Test "+owner, "studio: application.authorized login Test "+owner)

	hash, ok := oauth.AccessTokenHash(w.signer, tokens.Access)
	if !ok {
		t.Fatal("no access token")
	}
	actors := func() []string {
		session, err := w.Store.Credentials.FindSession(t.Context(), hash)
		must(t, err)
		ofGrant, err := w.Store.Credentials.FindSessionOfGrant(t.Context(), session.GrantID)
		must(t, err)
		page, err := w.Store.Logins.FindPrincipalOfOwner(t.Context(), owner, w.tenant.Account.ID, account.DefaultApp, w.clock.Now())
		must(t, err)
		return []string{session.Actor.Email, ofGrant.Actor.Email, page.Actor.Email}
	}
	if got := actors(); !slices.Equal(got, []string{owner, owner, owner}) {
		t.Errorf("the actors of requests have %q", got)
	}
	w.ensure(t, func(s *account.Spec) { s.FullAddresses = false })
	if got := actors(); !slices.Equal(got, []string{masked, masked, masked}) {
		t.Errorf("the actors of requests have %q after that", got)
	}
	w.tells(t, "nothing happened")
}

// A login is told to the accounts that the user can reach with it.
func TestJournal_TellsALoginToTheAccountsOfItsOwner(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	with := func(name, email string, change func(*account.Spec)) {
		w.Tenant(t, account.Spec{Name: name, Owners: []string{email}, MaxStorage: 1 << 20, MaxUploadSize: 1 << 20, Journal: 24 * time.Hour}, change)
	}
	with("second", owner, func(s *account.Spec) { s.FullAddresses = true })
	with("other", "bo@example.org", func(*account.Spec) {})
	with("suspended", owner, func(s *account.Spec) { s.Suspended = true })
	with("quiet", owner, func(s *account.Spec) { s.Journal = 0 })
	w.startLogin(t, nil).logIn(t, owner)
	got := w.events(t)
	slices.Sort(got)
	if want := []string{"second: login page  " + owner, "studio: login page  " + masked}; !slices.Equal(got, want) {
		t.Errorf("the journals tell %q, want %q", got, want)
	}
}

func TestJournal_OfLoginsIsEmptyWithoutOne(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	w.ensure(t, func(s *account.Spec) { s.Journal = 0 })
	tokens := w.authorize(t)
	must(t, w.RevokeToken(t.Context(), tokens.Access, client))
	w.tells(t, "an account without a journal")
}

// The rows of an account that is erased are deleted: events that come later would be left.
func TestJournal_TellsNoApplicationOfAnErasedAccount(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	w.authorize(t)
	w.events(t)
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), `UPDATE account SET closed_at = now(), erase_after = now(), erasing_at = now()`)))
	w.Counts(t, 1, "authorizations have ended with the account", `SELECT count(*) FROM oauth_grant WHERE revocation_reason = 'account closed'`)
	w.tells(t, "an account that is erased")
}

func TestJournal_ForgetsLoginsThatAreRolledBack(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	w.authorize(t)
	w.events(t)
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	tx, err := conn.Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `INSERT INTO oauth_grant (id, account_id, key_id, email, client_id, client_name, redirect_uri, scopes, resource, created_at)
		SELECT gen_random_uuid(), account_id, key_id, email, client_id, client_name, redirect_uri, scopes, resource, created_at FROM oauth_grant`)))
	must(t, check.ErrorOf(tx.Exec(t.Context(), `UPDATE oauth_grant SET revoked_at = now()`)))
	var written int
	must(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM journal WHERE id > $1`, w.read).Scan(&written))
	if written != 3 {
		t.Errorf("the transaction sees %d events, want one authorization and two ends", written)
	}
	must(t, tx.Rollback(t.Context()))
	w.tells(t, "a transaction that was rolled back")
}

// The credentials of the Default App read the events of the account; those of other apps do not.
func TestJournal_ShowsLoginsToTheDefaultAppOnly(t *testing.T) {
	t.Parallel()
	w := newJournaled(t, nil)
	w.authorize(t)
	blog := w.AddApp(t, w.tenant, "blog")
	other := w.account(t, "elsewhere", "bo@example.org")
	w.Change(t, other, func(s *account.Spec) { s.Journal = 24 * time.Hour })
	types := []journal.Type{journal.LoggedIn, journal.AppAuthorized, journal.AppRevoked, journal.UsageThreshold}
	activity := journal.NewActivity(w.Store.Journal)
	feed, err := journal.NewFeed(journal.Config{Waiting: 1}, w.Store.Journal, nil)
	must(t, err)
	for name, c := range map[string]struct {
		principal account.Principal
		want      int
	}{"the Default App": {w.Env.Principal(t, w.tenant), 2}, "another app": {w.Env.Principal(t, blog), 0}, "another account": {w.Env.Principal(t, other), 0}} {
		recent, err := activity.Recent(t.Context(), c.principal, journal.RecentRequest{Types: types, Limit: 10})
		must(t, err)
		page, err := feed.Read(t.Context(), c.principal, journal.Request{Types: types, Limit: 10})
		must(t, err)
		if len(recent.Events) != c.want || len(page.Events) != c.want {
			t.Errorf("%s sees %d recent events, and %d of the feed, want %d", name, len(recent.Events), len(page.Events), c.want)
		}
	}
}
