package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
)

// usageEnv is an account with a cap of 1000 bytes.
type usageEnv struct {
	*journalEnv
	scope media.Scope
	told  int // events that were read
}

func newUsageEnv(t *testing.T, retention time.Duration) *usageEnv {
	t.Helper()
	e := &usageEnv{journalEnv: newJournalEnv(t, retention)}
	must(t, check.ErrorOf(e.store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)))
	e.scope = media.Scope{AccountID: e.id, AppID: e.app.ID, Bucket: "media", Actor: account.ActorOfKey(uuid.New())}
	return e
}

// upload commits an item of so many bytes.
func (e *usageEnv) upload(bytes int64) media.Item {
	e.t.Helper()
	return commitDraft(e.t, e.store, e.scope, func(item *media.Item) { item.Objects[0].Bytes = bytes })
}

func (e *usageEnv) remove(item media.Item) {
	e.t.Helper()
	must(e.t, check.ErrorOf(e.store.Items.DeleteItem(e.t.Context(), e.scope, item.ID, time.Now())))
}

// bounds returns the bounds that were told since the last call. It reports an error for an event that is not as all of them are.
func (e *usageEnv) bounds() (told []int) {
	e.t.Helper()
	all := slices.DeleteFunc(events(e.t, e.store, e.id), func(event journal.Event) bool { return event.Type != journal.UsageThreshold })
	for _, event := range all[e.told:] {
		told = append(told, event.Percent)
		if event.Actor != (account.Actor{Kind: account.ActorService}) || event.AppID != uuid.Nil || event.ItemID != uuid.Nil || len(event.Fields) > 0 {
			e.t.Errorf("the event is %+v", event)
		}
	}
	e.told = len(all)
	return told
}

// tells reports an error if other bounds were told since the last call.
func (e *usageEnv) tells(what string, want ...int) {
	e.t.Helper()
	if got := e.bounds(); !slices.Equal(got, want) {
		e.t.Errorf("%s: the journal tells %v, want %v", what, got, want)
	}
}

func TestJournal_TellsABoundOfTheCapWhenTheUseReachesIt(t *testing.T) {
	t.Parallel()
	e := newUsageEnv(t, 24*time.Hour)
	e.upload(799)
	e.tells("799 of 1000 bytes")
	e.upload(1)
	e.tells("800 bytes", 80)
	e.upload(99)
	e.tells("899 bytes")
	last := e.upload(101)
	e.tells("several bounds at once", 100)
	e.remove(last)
	e.tells("899 bytes again")
	next := e.upload(1)
	e.tells("900 bytes", 90)
	e.remove(next)
	e.upload(1)
	e.tells("900 bytes, after less", 90)
	must(t, e.store.Uploads.OpenUpload(t.Context(), uuid.New(), e.scope, 100, time.Now().Add(-time.Hour)))
	e.tells("an upload that runs has reserved the rest", 100)
	must(t, check.ErrorOf(e.store.Items.ExpireUploads(t.Context(), time.Now(), 10, func(uuid.UUID) []string { return nil })))
	e.tells("it has ended")
}

func TestJournal_TellsABoundThatMovesBelowTheUse(t *testing.T) {
	t.Parallel()
	e := newUsageEnv(t, 24*time.Hour)
	limit := func(bytes int64) { e.update(func(s *account.Spec) { s.MaxStorage = bytes }) }
	e.upload(500)
	e.tells("half of the cap")
	limit(625)
	e.tells("a cap of which 80 % are used", 80)
	limit(499)
	e.tells("a cap below the use", 100)
	limit(400)
	e.tells("a lower one")
	limit(2000)
	e.tells("a higher one")
	e.upload(1100)
	e.tells("80 % of it", 80)
	e.update(func(s *account.Spec) { s.Journal = 48 * time.Hour })
	e.tells("another retention")
	e.update(func(s *account.Spec) { s.Journal = 0 })
	e.upload(300)
	limit(1900)
	e.update(func(s *account.Spec) { s.Journal = 24 * time.Hour })
	e.tells("what happens without a journal, and its begin")
	limit(3000)
	e.upload(700)
	e.tells("the cap that was set after it had begun", 80)
	exec(t, e.url, `UPDATE account SET closed_at = now(), erase_after = now(), erasing_at = now()`)
	e.upload(300)
	e.tells("an account that is erased")
}

// The rows that were there before the migration, and those of programs of the version before, do not have the bounds.
func TestJournal_LooksUpACapThatIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retention time.Duration
		known     string
		told      []int
	}{
		"with a journal": {24 * time.Hour, "{800,900,1000}", []int{80}},
		"without one":    {0, "none", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUsageEnv(t, c.retention)
			exec(t, e.url, `UPDATE account_usage SET journal_bounds = DEFAULT`)
			e.upload(800)
			e.tells("the first upload", c.told...)
			counts(t, e.url, 1, "rows have the bounds", `SELECT count(*) FROM account_usage WHERE coalesce(journal_bounds::text, 'none') = $1`, c.known)
			e.update(func(s *account.Spec) { s.Journal = 24 * time.Hour })
			e.upload(100)
			e.tells("an upload with a journal", 90)
		})
	}
}

// An update of the use that reaches no bound calls no function: uploads of all accounts are such updates.
func TestJournal_CostsAnUploadThatReachesNoBoundNoCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retention     time.Duration
		before, after int64
		calls         bool
	}{
		"below all bounds":              {24 * time.Hour, 0, 799, false},
		"to a bound":                    {24 * time.Hour, 799, 800, true},
		"between two":                   {24 * time.Hour, 800, 899, false},
		"to the second one":             {24 * time.Hour, 899, 900, true},
		"from the second one":           {24 * time.Hour, 900, 999, false},
		"to the cap":                    {24 * time.Hour, 999, 1000, true},
		"above the cap":                 {24 * time.Hour, 1000, 1001, false},
		"down through all of them":      {24 * time.Hour, 1000, 0, false},
		"to a bound, without a journal": {0, 0, 800, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUsageEnv(t, c.retention)
			e.upload(1) // now the bounds are known
			exec(t, e.url, `UPDATE account_usage SET bytes = $1`, c.before)
			rows, err := connect(t, e.url).Query(t.Context(), fmt.Sprintf(`EXPLAIN (ANALYZE) UPDATE account_usage SET bytes = %d`, c.after))
			must(t, err)
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			must(t, err)
			if called := strings.Contains(strings.Join(plan, "\n"), "account_usage_journal"); called != c.calls {
				t.Errorf("the trigger is called: %v, want %v", called, c.calls)
			}
		})
	}
}

// Each bound is reached once, whatever happens at the same time.
func TestJournal_TellsEachBoundOnceOfUploadsAtOnce(t *testing.T) {
	t.Parallel()
	e := newUsageEnv(t, 24*time.Hour)
	e.upload(1)
	var writers sync.WaitGroup
	for range 8 {
		conn := connect(t, e.url)
		writers.Go(func() {
			for range 10 {
				if _, err := conn.Exec(t.Context(), `UPDATE account_usage SET bytes = bytes + 13`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	e.tells("80 updates", 80, 90, 100)
}

// A cap that changes while an upload is committed is compared with the use after it.
func TestJournal_TellsACapThatChangesDuringAnUpload(t *testing.T) {
	t.Parallel()
	e := newUsageEnv(t, 24*time.Hour)
	e.upload(1)
	tx, err := connect(t, e.url).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `UPDATE account_usage SET bytes = 850`)))
	changed := make(chan error, 1)
	wanted := e.spec
	wanted.MaxStorage = 850
	go func() { changed <- check.ErrorOf(e.Ensure(t.Context(), wanted)) }()
	wait.Until(t, "the change of the account waits for the upload", func() bool { return waiting(t, e.url) > 0 })
	must(t, tx.Commit(t.Context()))
	must(t, wait.Receive(t, "the change ends", changed))
	e.tells("the upload, then the change", 80, 100)
}

func TestJournal_ForgetsABoundThatIsRolledBack(t *testing.T) {
	t.Parallel()
	e := newUsageEnv(t, 24*time.Hour)
	tx, err := connect(t, e.url).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `UPDATE account_usage SET bytes = 1000`)))
	var written int
	must(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM journal WHERE type = 'usage.threshold'`).Scan(&written))
	if written != 1 {
		t.Errorf("the transaction sees %d events", written)
	}
	must(t, tx.Rollback(t.Context()))
	e.tells("a change that was rolled back")
	e.upload(800)
	e.tells("the next one", 80)
}

// An event is written with the address as the program would.
func TestJournal_MasksAddressesAsTheProgramDoes(t *testing.T) {
	t.Parallel()
	_, url := setup(t)
	conn := connect(t, url)
	for _, email := range []string{"ana@example.org", "a@example.org", "Ürsel@example.org", "two@at@example.org", "nobody", "@example.org", ""} {
		for whole, of := range map[bool]account.Account{false: {}, true: {FullAddresses: true}} {
			var text string
			must(t, conn.QueryRow(t.Context(), `SELECT person_actor('login', '42', 'The "app" <x>', $1, $2)`, email, whole).Scan(&text))
			want := account.Actor{Kind: account.ActorLogin, ID: "42", Name: `The "app" <x>`, Email: of.AddressOf(email)}
			if got := account.ParseActor(text); got != want {
				t.Errorf("%q, whole %v: %+v, want %+v", email, whole, got, want)
			}
		}
	}
}
