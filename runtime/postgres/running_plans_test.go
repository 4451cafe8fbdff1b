package postgres_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

const (
	// ownRunning are the running uploads of one account, and foreignRunning those of the other accounts together.
	ownRunning, foreignRunning = 20_000, 20_000
	// expiredRunning are the newest of ownRunning: more than one page examines.
	expiredRunning = upload.MaxExamined + 500
	pageOfRunning  = 100
	// A page looks up its rows, each by some parts of the plan. maxPastWork is that of one that reads past all that it may examine.
	maxPageWork = 12 * pageOfRunning
	maxPastWork = 7 * upload.MaxExamined
)

// seedRunning adds running uploads: those of the account 2, and of 2000 others. The capability "rare" has each 4000th of the account.
func seedRunning(t *testing.T, url string) {
	t.Helper()
	id := func(prefix, n string) string {
		return "('" + prefix + "-0000-7000-8000-' || lpad(to_hex(" + n + "), 12, '0'))::uuid"
	}
	owner := func(prefix string) string {
		return "CASE WHEN n <= $1 THEN " + id(prefix, "2") + " ELSE " + id(prefix, "3 + n % ($3 - 2)") + " END"
	}
	for _, insert := range []string{
		`INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended)
			SELECT ` + id(accountIDs, "n") + `, 'team', 'a' || n, 'u', 'o' || n, '', '{}', 1000000000000, 1000, 'b' || n, false FROM generate_series(2, $3::int) n WHERE $1::int > 0 AND $2::int > 0 AND $4::int > 0`,
		`INSERT INTO app (id, account_id, name) SELECT ` + id(appIDs, "n") + `, ` + id(accountIDs, "n") + `, 'default' FROM generate_series(2, $3::int) n WHERE $1::int > 0 AND $2::int > 0 AND $4::int > 0`,
		`INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends) SELECT ` + id(resumeIDs, "n") + `, ` + owner(accountIDs) + `, ` + owner(appIDs) + `, 1,
			now() + CASE WHEN n BETWEEN $1::int - $4::int + 1 AND $1 THEN interval '-1 hour' ELSE interval '1 day' END FROM generate_series(1, $1::int + $2::int) n WHERE $3::int > 0`,
		// An upload by form is no row of the list.
		`INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends, instance_id) SELECT ` + id(uploadIDs, "n") + `, ` + id(accountIDs, "2") + `, ` + id(appIDs, "2") + `, 1, now() + interval '1 day', gen_random_uuid()
			FROM generate_series(1, 1000) n WHERE $1::int > 0 AND $2::int > 0 AND $3::int > 0 AND $4::int > 0`,
		`INSERT INTO resumable_upload (item_id, account_id, app_id, file_name, declared_type, access, caption, group_label, expires_at, capability)
			SELECT ` + id(resumeIDs, "n") + `, ` + owner(accountIDs) + `, ` + owner(appIDs) + `, '', '', 'public', '', '', now() + interval '1 day', CASE n % 4000 WHEN 1 THEN '{"id": "` + media.SHA256(rareCapability[:]).String() + `"}'::jsonb END
			FROM generate_series(1, $1::int + $2::int) n WHERE $3::int > 0 AND $4::int > 0`,
	} {
		exec(t, url, insert, ownRunning, foreignRunning, batchAccounts, expiredRunning)
	}
}

var rareCapability = uuid.MustParse("01c10000-0000-7000-8000-000000000001")

// A page of running uploads reads its rows in the order of their index, however many the account and the others have, and
// whatever the planner knows. Without the index a page read and sorted all uploads of the account.
func TestRunningUploads_AreReadInTheOrderOfTheirIndex(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	withoutAutovacuum(t, url)
	connect := func() *pgx.Conn {
		conn := connect(t, url)
		return conn
	}
	conn, keeping, early := connect(), connect(), map[string]string{}
	page := sqlgen.ListResumablesParams{AppID: numbered(appIDs, 2), Before: numbered(resumeIDs, ownRunning-expiredRunning+1), Examine: upload.MaxExamined, Now: time.Now(), PageSize: pageOfRunning}
	middle, past, capability, other := page, page, page, page
	middle.Before = numbered(resumeIDs, 5000)
	past.Before = uuid.Max
	capability.Capability = media.SHA256(rareCapability[:]).String()
	other.AppID, other.Before = numbered(appIDs, 3), uuid.Max
	statements := map[string]struct {
		params sqlgen.ListResumablesParams
		most   float64
		least  float64 // a plan with fewer rows has not found what the test is about
	}{
		"the first page":                        {page, maxPageWork, pageOfRunning},
		"a page in the middle":                  {middle, maxPageWork, pageOfRunning},
		"a page of an account with few uploads": {other, maxPageWork, 1},
		"a page of expired uploads":             {past, maxPastWork, upload.MaxExamined},
		"a page of a capability":                {capability, maxPastWork, upload.MaxExamined},
	}
	explain := func(name, mode string, of *pgx.Conn, early map[string]string) *explainer {
		explained := &explainer{conn: of, mode: mode, early: early}
		_, _ = sqlgen.New(explained).ListResumables(t.Context(), statements[name].params)
		if !errors.Is(explained.err, errExplained) {
			t.Fatalf("%s: %v", name, explained.err)
		}
		return explained
	}
	names := slices.Sorted(maps.Keys(statements))
	for _, name := range names {
		explain(name, "force_generic_plan", keeping, early)
	}
	seedRunning(t, url)
	check := func(statistics, mode string, of *pgx.Conn, early map[string]string) {
		t.Helper()
		for _, name := range names {
			if explained := explain(name, mode, of, early); explained.work > statements[name].most || explained.work < statements[name].least {
				t.Errorf("%s, %s, %s: the parts of the plan have %.0f rows, not %.0f to %.0f\n%s", name, statistics, mode, explained.work, statements[name].least, statements[name].most, explained.outline)
			}
		}
	}
	check("planned for empty tables", "force_generic_plan", keeping, early)
	for _, statistics := range []string{"never analyzed", "analyzed"} {
		if statistics == "analyzed" {
			exec(t, url, `ANALYZE`)
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			check(statistics, mode, conn, nil)
		}
	}
}

// All pages together have each running upload once, also those of an account with more of them than one page examines,
// and also those of a capability that has few of them. Such a list used to have some of them.
func TestRunningUploads_AllAreListed(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	seedRunning(t, url)
	list := func(q upload.RunningQuery) (ids []uuid.UUID, pages int) {
		for scope := (media.Scope{AccountID: numbered(accountIDs, 2), AppID: numbered(appIDs, 2)}); ; {
			page, err := store.Uploads.ListResumables(t.Context(), scope, q, time.Now())
			must(t, err)
			pages++
			for _, upload := range page.Uploads {
				ids = append(ids, upload.ID)
			}
			if q.After = page.Next; q.After == uuid.Nil {
				return ids, pages
			}
		}
	}
	var all, rare []uuid.UUID
	for n := ownRunning - expiredRunning; n > 0; n-- {
		all = append(all, numbered(resumeIDs, n))
		if n%4000 == 1 {
			rare = append(rare, numbered(resumeIDs, n))
		}
	}
	if got, pages := list(upload.RunningQuery{Limit: pageOfRunning}); !slices.Equal(got, all) {
		t.Errorf("%d pages have %d uploads, not the %d that are running", pages, len(got), len(all))
	}
	capability := &upload.Capability{ID: rareCapability[:]}
	got, pages := list(upload.RunningQuery{Limit: pageOfRunning, Capability: capability})
	if !slices.Equal(got, rare) {
		t.Errorf("the capability lists %v, not %v", got, rare)
	}
	if most := ownRunning/upload.MaxExamined + 1; pages > most {
		t.Errorf("the list of a capability has %d pages, not at most %d", pages, most)
	}
	// A page that is full at the last upload that it examines.
	if got, _ := list(upload.RunningQuery{Limit: 2, Capability: capability}); !slices.Equal(got, rare) {
		t.Errorf("in pages of 2, the capability lists %v, not %v", got, rare)
	}
}
