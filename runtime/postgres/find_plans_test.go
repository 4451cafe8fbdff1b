package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// maxSearchPages bounds the pages of 8 KiB that a statement of a search reads for an app with
// ownItems items: those, and some of each index. All rows have more than 4,000 pages.
const (
	ownItems       = 40
	maxSearchPages = 200
)

// searches has one of each kind of filter and order, and combinations of them.
func searches() []media.Query {
	traits, err := media.TraitsText{Has: "caption", MinWidth: new(int64), Color: "#808080", Orientation: "square"}.Parse()
	if err != nil {
		panic(err)
	}
	from, to := time.UnixMilli(0x018f00000000), time.UnixMilli(0x019500000000)
	all := []media.Query{
		{}, {Search: media.Search{Type: "image/jpeg"}}, {Search: media.Search{Type: "image/*"}}, {Search: media.Search{Type: "text/css"}},
		{Search: media.Search{Name: "photo"}}, {Search: media.Search{Name: "ph"}}, {Search: media.Search{Name: "nothing of this"}},
		{Search: media.Search{Metadata: media.Metadata{"color": "red"}}}, {Search: media.Search{Metadata: media.Metadata{"color": "red", "a": "b"}}},
		{Search: media.Search{Captured: media.CaptureSearch{Near: &capture.Near{Location: capture.Location{Latitude: -89.99, Longitude: -179.99}, Radius: 1000}}}},
		{Search: media.Search{Captured: media.CaptureSearch{From: time.UnixMilli(1_700_000_000_005), To: time.UnixMilli(1_700_000_000_009)}}},
		{Search: media.Search{Name: "photo", Captured: media.CaptureSearch{From: time.UnixMilli(1_700_000_000_005), Near: &capture.Near{Location: capture.Location{Latitude: 48, Longitude: 2}, Radius: 1000}}}},
		{Search: media.Search{From: from, To: to}}, {Search: media.Search{To: from}},
		{Search: media.Search{Words: wordsOf("common")}}, {Search: media.Search{Words: wordsOf("c")}}, {Search: media.Search{Words: wordsOf(`photo "jpg" -rare`)}},
		{Search: media.Search{Words: wordsOf("absent")}}, {Search: media.Search{Words: wordsOf("photo common"), Keys: []string{"color"}}}, {Search: media.Search{Words: wordsOf("-absent")}},
		{Search: media.Search{Filter: media.Filter{Access: media.Public}, Words: wordsOf("photo"), Traits: traits}},
		{Search: media.Search{Filter: media.Filter{Access: media.Public}, Name: "photo"}}, {Search: media.Search{Filter: media.Filter{Group: "rare"}, Type: "image/*"}},
		{Search: media.Search{Filter: media.Filter{Group: "common", Access: media.Private}, Name: "photo", From: from}},
	}
	var ordered []media.Query
	for _, q := range all {
		ordered = append(ordered, q)
		for _, order := range []media.Order{{By: media.ByTime, Ascending: true}, {By: media.ByName, Ascending: true}, {By: media.ByName}, {By: media.BySize, Ascending: true}, {By: media.BySize}, {By: media.ByCapture, Ascending: true}, {By: media.ByCapture}} {
			q.Order = order
			ordered = append(ordered, q)
		}
		q.Order, q.Drafts = media.Order{}, true
		ordered = append(ordered, q)
	}
	return ordered
}

// A search reads the rows of its app, and few of them, whatever else is in the table and whatever the
// statistics say of it: rows of other tenants and of another app of the account, and drafts.
func TestSearchPlans_ReadTheRowsOfTheirAppOnly(t *testing.T) {
	t.Parallel()
	p := newPlanDatabase(t)
	check := func(statistics string) {
		t.Helper()
		for _, query := range searches() {
			checkSearchPlans(t, p.explaining, p.small, query, statistics)
		}
		explainSearch(t, p.explaining, postgres.GroupsStatement(p.small), "statistics "+statistics+", groups", media.Query{}, maxSearchPages)
		explainSearch(t, p.explaining, postgres.SpanStatement(p.small), "statistics "+statistics+", span", media.Query{}, maxSearchPages)
		explainSearch(t, p.explaining, postgres.KeysStatement(p.small, ownItems), "statistics "+statistics+", keys", media.Query{}, maxSearchPages)
	}

	// The statistics say that the small app has all rows.
	seedItemRows(t, p.conn, p.small, "01900000-0000-7000-8000-", ownItems/2, "public", "rare", true)
	seedItemRows(t, p.conn, p.small, "01940000-0000-7000-8000-", ownItems/2, "private", "common", true)
	exec(t, p.url, `UPDATE item SET metadata = '{"color": "red"}'`)
	exec(t, p.url, `ALTER TABLE stored_item SET (autovacuum_enabled = false)`)
	exec(t, p.url, `ANALYZE`)
	seedItemRows(t, p.conn, p.sibling, "01910000-0000-7000-8001-", foreignListed/2, "private", "common", true)
	seedItemRows(t, p.conn, p.sibling, "01910000-0000-7000-8002-", ownDrafts, "private", "common", false)
	seedItemRows(t, p.conn, p.small, "01930000-0000-7000-8000-", ownDrafts, "private", "common", false)
	seedItemRows(t, p.conn, p.large, "01920000-0000-7000-8000-", foreignListed, "private", "common", true)
	exec(t, p.url, `UPDATE item SET metadata = '{"color": "red"}' WHERE app_id <> (SELECT app_id FROM item LIMIT 1) AND get_byte(uuid_send(id), 15) < 16`)
	check("of the small app only")
	exec(t, p.url, `ANALYZE`)
	check("current")
	p.multiplyRows(t)
	check("of a million rows")

	// In the large app, a page is found among the first items, also far from the start.
	for _, order := range []media.Order{{By: media.ByTime}, {By: media.ByTime, Ascending: true}, {By: media.ByName}, {By: media.BySize, Ascending: true}, {By: media.ByCapture}} {
		query := media.Query{Search: media.Search{Type: "image/*"}, Order: order}
		middle := media.Position{ID: uuid.MustParse("01920000-0000-7000-8000-000000006000"), Name: "photo.jpg", Size: 1}
		for _, after := range []*media.Position{nil, &middle} {
			first := postgres.SearchStatements(p.large, query, after, 21)["first scan"]
			explainSearch(t, p.explaining, first, "first scan of the large app", query, maxSearchPages)
		}
	}
}

// checkSearchPlans explains all statements of a search, from the start and from a position.
func checkSearchPlans(t *testing.T, conn *pgx.Conn, scope media.Scope, query media.Query, name string) {
	t.Helper()
	middle := media.Position{ID: uuid.MustParse("01920000-0000-7000-8000-000000006000"), Name: "photo.jpg", Size: 1}
	for _, after := range []*media.Position{nil, &middle} {
		for what, statement := range postgres.SearchStatements(scope, query, after, 21) {
			explainSearch(t, conn, statement, "statistics "+name+", "+what, query, maxSearchPages)
		}
	}
}

func explainSearch(t *testing.T, conn *pgx.Conn, statement postgres.Statement, name string, query media.Query, most int) {
	t.Helper()
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		explained := &explainer{conn: conn, mode: mode, settings: statement.Settings}
		explained.explain(t.Context(), statement.SQL, statement.Args)
		switch {
		case !errors.Is(explained.err, errExplained):
			t.Fatalf("%s: %v", name, explained.err)
		case explained.pages > most:
			t.Errorf("%s of %+v, %s: %d pages are read, not at most %d\n%.3000s", name, query, mode, explained.pages, most, explained.plan)
		}
	}
}
