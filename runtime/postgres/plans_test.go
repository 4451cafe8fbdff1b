package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

const (
	// foreignItems are the items of another account, and ownDrafts the drafts of this one. Both are
	// newer than what the statements look for.
	foreignItems = 100_000
	ownDrafts    = 3000
	// maxPages bounds the pages of 8 KiB that a statement reads. All rows have about 4,000.
	maxPages = 250
)

// The cost of a statement for one account does not depend on the rows of others, nor on its
// drafts: a plan that reads them is wrong, however fast this machine is. list_plans_test.go has the
// lists.
func TestPlans_ReadTheRowsOfTheirAccountOnly(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	own := provisioned(t, store)
	large := spec
	large.Name, large.ObjectUID = "large", "uid of large"
	other, err := registry(store).Ensure(t.Context(), large)
	must(t, err)
	apps, _, err := registry(store).OpenApps(t.Context(), other.ID, nil)
	must(t, err)
	foreign := media.Scope{AccountID: other.ID, AppID: apps[0].ID}
	conn := connect(t, url)
	withoutAutovacuum(t, url)
	seedItemRows(t, conn, own, "01900000-0000-7000-8000-", 40, "public", "album", true)
	seedItemRows(t, conn, foreign, "01900000-0000-7000-8001-", 20, "public", "rare", true)
	seedItemRows(t, conn, own, "01910000-0000-7000-8000-", ownDrafts, "private", "", false)
	seedItemRows(t, conn, foreign, "01920000-0000-7000-8000-", foreignItems, "private", "common", true)
	seedRenditions(t, conn)
	for _, of := range []struct {
		media.Scope
		events int
	}{{own, 40}, {foreign, foreignItems}} {
		must(t, check.ErrorOf(conn.Exec(t.Context(), `INSERT INTO journal (account_id, app_id, type) SELECT $1, $2, 'media.sealed' FROM generate_series(1, $3)`, of.AccountID, of.AppID, of.events)))
	}
	for id, of := range map[string]*uuid.UUID{"01900000-0000-7000-8000-000000000001": &own.AccountID, "01900000-0000-7000-8000-000000000002": nil} {
		must(t, check.ErrorOf(conn.Exec(t.Context(), `WITH made AS (
				INSERT INTO webhook (id, namespace, name, object_uid, generation, account_id, types, apps, groups, format, suspended, target, target_digest, public_key, test, replay, replay_events)
				VALUES ($1::uuid, 'n', $1::uuid::text, $1::uuid::text, 1, $2, '{}', '{}', '{}', 'standard', false, '', '', '', '', '', '{}') RETURNING id
			) INSERT INTO webhook_progress (webhook_id, epoch, xid, event_id) SELECT id, 0, 0, 0 FROM made`, uuid.MustParse(id), of)))
	}
	must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE account_usage SET bytes = 1000000, rendition_bytes = 100000`)))
	must(t, check.ErrorOf(conn.Exec(t.Context(), `INSERT INTO login_session (id, cookie_hash, expires_at, email, code_mac)
		SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, sha256(n::text::bytea), now() + interval '1 hour', 'ada@example.org', sha256(n::text::bytea) FROM generate_series(1, 30000) n`)))

	var first, last uuid.UUID
	for i := range last {
		last[i] = 0xff
	}
	item := uuid.MustParse("01900000-0000-7000-8000-000000000001")
	draft := uuid.MustParse("01910000-0000-7000-8000-000000000001")
	statements := map[string]func(context.Context, *sqlgen.Queries){
		"count a block": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.CountBlock(ctx, sqlgen.CountBlockParams{AppID: own.AppID, PartSize: 1000, FirstID: first, NextID: last})
		},
		"get": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Item(ctx, sqlgen.ItemParams{AppID: own.AppID, ID: item})
		},
		"find principals": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Principals(ctx, [][]byte{make([]byte, 32), bytes.Repeat([]byte{1}, 32)})
		},
		"apps of an owner": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.AppNamesOfOwner(ctx, sqlgen.AppNamesOfOwnerParams{AccountID: own.AccountID, Email: "ana@example.org", Now: time.Now(), Batch: 10})
		},
		"deliver": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.ItemForDelivery(ctx, item) },
		"items without facts": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ItemsWithoutFacts(ctx, sqlgen.ItemsWithoutFactsParams{AccountID: own.AccountID, ID: item, Batch: 10})
		},
		"item without a capture": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ItemWithoutCapture(ctx, sqlgen.ItemWithoutCaptureParams{AccountID: own.AccountID, ID: draft})
		},
		"items without captures": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ItemsWithoutCapture(ctx, sqlgen.ItemsWithoutCaptureParams{AccountID: own.AccountID, ID: item, Batch: 10})
		},
		"set a capture": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.SetCapture(ctx, sqlgen.SetCaptureParams{AccountID: own.AccountID, ID: draft, Capture: "{}"})
		},
		"keeps places": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.KeepsLocations(ctx, own.AccountID) },
		"remove places": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.RemoveLocations(ctx, sqlgen.RemoveLocationsParams{AccountID: own.AccountID, Batch: 3})
		},
		"has places": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.HasLocations(ctx, own.AccountID) },
		"set facts":  func(ctx context.Context, q *sqlgen.Queries) { _ = q.SetFacts(ctx, sqlgen.SetFactsParams{ID: item}) },
		"skip facts": func(ctx context.Context, q *sqlgen.Queries) { _ = q.SkipFacts(ctx, []uuid.UUID{item, draft}) },
		"pending derivatives": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PendingItem(ctx, sqlgen.PendingItemParams{AccountID: own.AccountID, ID: draft})
		},
		"lock an item without derivatives": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.LockPending(ctx, sqlgen.LockPendingParams{AccountID: own.AccountID, ID: draft})
		},
		"finish derivatives": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.FinishDerivatives(ctx, sqlgen.FinishDerivativesParams{LockTimeout: "0", AccountID: own.AccountID, ItemID: draft, Objects: "[]"})
		},
		"has an object": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ItemHasObject(ctx, sqlgen.ItemHasObjectParams{ID: item, Key: "k"})
		},
		"exists":    func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.ItemExists(ctx, item) },
		"has items": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.HasItems(ctx, own.AccountID) },
		"usage":     func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.AccountHolding(ctx, own.AccountID) },
		"seal": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Seal(ctx, sqlgen.SealParams{AppID: own.AppID, ID: draft, Now: time.Now()})
		},
		"delete": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.DeleteItem(ctx, sqlgen.DeleteItemParams{AppID: own.AppID, ID: item, NotBefore: time.Now()})
		},
		"sample the files": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.SampleFiles(ctx, sqlgen.SampleFilesParams{AccountID: own.AccountID, Items: 3})
		},
		"check the items": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ItemsAfter(ctx, sqlgen.ItemsAfterParams{AccountID: own.AccountID, Limit: 10})
		},
		"check the sizes": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.SizeMismatchesAfter(ctx, sqlgen.SizeMismatchesAfterParams{AccountID: own.AccountID, Limit: 10})
		},
		"check by id": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ItemsByID(ctx, sqlgen.ItemsByIDParams{AccountID: own.AccountID, Ids: []uuid.UUID{item, draft}})
		},
		"find a rendition": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.FindRendition(ctx, sqlgen.FindRenditionParams{ItemID: item, Key: make([]byte, 32)})
		},
		"claim a rendition": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ClaimRendition(ctx, sqlgen.ClaimRenditionParams{AccountID: own.AccountID, ItemID: item, Key: make([]byte, 32), RecipeID: make([]byte, 16)})
		},
		"reserve a rendition": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ReserveRendition(ctx, sqlgen.ReserveRenditionParams{LockTimeout: "0", AccountID: own.AccountID, ItemID: item, Key: make([]byte, 32), Bytes: 1})
		},
		"finish a rendition": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.FinishRendition(ctx, sqlgen.FinishRenditionParams{AccountID: own.AccountID, ItemID: item, Key: make([]byte, 32), Sha256: make([]byte, 32)})
		},
		"evict renditions": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EvictRenditions(ctx, sqlgen.EvictRenditionsParams{AccountID: own.AccountID, Batch: 10, Needed: 10})
		},
		"touch renditions": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.TouchRenditions(ctx, sqlgen.TouchRenditionsParams{ItemIds: []uuid.UUID{item, draft}, Keys: [][]byte{make([]byte, 32), make([]byte, 32)}, Now: time.Now(), Before: time.Now()})
		},
		"count renditions": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.RenditionTotals(ctx, own.AccountID) },
		"end claims": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EndClaims(ctx, sqlgen.EndClaimsParams{Cutoff: time.Now(), Batch: 10})
		},
		"end stale renditions": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EndStaleRenditions(ctx, sqlgen.EndStaleRenditionsParams{Cutoff: time.Now(), Kept: []uuid.UUID{}, Batch: 10})
		},
		"add the tasks of accounts": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EnqueueEager(ctx, sqlgen.EnqueueEagerParams{Encoder: 1})
		},
		"read what is made in advance": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EagerAccount(ctx, sqlgen.EagerAccountParams{AccountID: own.AccountID, Encoder: 1})
		},
		"find the items of a pass": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EagerPage(ctx, sqlgen.EagerPageParams{AccountID: own.AccountID, BeforeID: uuid.Max, Page: 10})
		},
		"record a pass": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PassEager(ctx, sqlgen.PassEagerParams{AccountID: own.AccountID, Changed: 1, BeforeID: uuid.Max})
		},
		"count pictures that are pending": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.EagerPending(ctx, own.AccountID) },
		"find accounts with pending pictures": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EagerWaiting(ctx, nil)
		},
		"claim an item": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ClaimTasks(ctx, sqlgen.ClaimTasksParams{Kind: "picture", Claim: item, Batch: 2, PerAccount: 2})
		},
		"add the task of an item": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.RetryEager(ctx, sqlgen.RetryEagerParams{ItemID: item, AccountID: own.AccountID})
		},
		"find the renditions of an item": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.MadeRenditions(ctx, sqlgen.MadeRenditionsParams{ItemID: item, Keys: [][]byte{make([]byte, 32)}})
		},
		"read events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Events(ctx, sqlgen.EventsParams{AccountID: own.AccountID, Epoch: 1, Oldest: math.MaxInt64, Examined: 1000, AppID: own.AppID, Types: []string{"media.sealed"}, Most: 10})
		},
		"read many events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Events(ctx, sqlgen.EventsParams{AccountID: foreign.AccountID, Epoch: 1, Oldest: math.MaxInt64, AfterEpoch: 1, AfterXid: 1, Examined: 1000, AllApps: true, Types: []string{}, Most: 100})
		},
		"read recent events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.RecentEvents(ctx, sqlgen.RecentEventsParams{AccountID: own.AccountID, BeforeEpoch: math.MaxInt64, BeforeXid: math.MaxInt64, BeforeID: math.MaxInt64, Examined: 1000, AppID: own.AppID, ItemID: item, Types: []string{"media.sealed"}, Most: 10})
		},
		"read many recent events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.RecentEvents(ctx, sqlgen.RecentEventsParams{AccountID: foreign.AccountID, BeforeEpoch: math.MaxInt64, BeforeXid: math.MaxInt64, BeforeID: math.MaxInt64, Examined: 1000, AllApps: true, AllItems: true, Types: []string{}, Most: 100})
		},
		"read webhook events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WebhookEvents(ctx, sqlgen.WebhookEventsParams{AccountID: own.AccountID, Epoch: 1, Oldest: math.MaxInt64, Most: 20})
		},
		"read many webhook events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WebhookEvents(ctx, sqlgen.WebhookEventsParams{AccountID: foreign.AccountID, Epoch: 1, Oldest: math.MaxInt64, Most: 20})
		},
		"read all webhook events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WebhookEventsOfAll(ctx, sqlgen.WebhookEventsOfAllParams{Epoch: 1, Oldest: math.MaxInt64, Most: 20})
		},
		"find webhooks with events": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.WebhooksWithNews(ctx, 1000) },
		"lock a webhook":            func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.LockWebhook(ctx, item) },
		"read states of webhooks": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WebhookStates(ctx, sqlgen.WebhookStatesParams{})
		},
		"log in": func(ctx context.Context, q *sqlgen.Queries) {
			mac := sha256.Sum256([]byte("1"))
			_, _ = q.SetLoggedIn(ctx, sqlgen.SetLoggedInParams{ID: item, Now: time.Now(), NewCookieHash: make([]byte, 32), ExpiresAt: time.Now().Add(time.Hour), CodeMac: mac[:]})
		},
		"find slow webhooks": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.WebhooksApart(ctx, []string{"key"}) },
		"claim tasks of some accounts": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ClaimTasks(ctx, sqlgen.ClaimTasksParams{Kind: "picture", Claim: item, Batch: 2, PerAccount: 2, Accounts: []uuid.UUID{own.AccountID}, Most: []int32{1}, Those: true})
		},
		"record an attempt": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.RecordWebhookAttempt(ctx, sqlgen.RecordWebhookAttemptParams{WebhookID: item, Slots: 100, At: time.Now()})
		},
		"find names of items": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.NamedItems(ctx, sqlgen.NamedItemsParams{AccountID: own.AccountID, Ids: []uuid.UUID{item, draft, last}})
		},
		"find references": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.FindReferences(ctx, sqlgen.FindReferencesParams{AccountID: own.AccountID, Ids: []uuid.UUID{item}, Keys: []string{"media/1/original"}})
		},
	}
	examine := func(statistics string) {
		t.Helper()
		// One change of an item in about 300 finds the list of new entries of the index full, and moves them all: 250 pages.
		exec(t, url, `SELECT gin_clean_pending_list('item_terms')`)
		for name, run := range statements {
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				settings := ""
				if strings.HasSuffix(name, " events") {
					settings = postgres.InOrderSettings
				}
				explained := &explainer{conn: conn, mode: mode, settings: settings}
				run(t.Context(), sqlgen.New(explained))
				switch {
				case !errors.Is(explained.err, errExplained):
					t.Errorf("%s: %v", name, explained.err)
				case explained.pages > maxPages:
					t.Errorf("%s, %s, %s: %d pages are read\n%s", name, statistics, mode, explained.pages, explained.outline)
				}
			}
		}
	}
	examine("never analyzed")
	exec(t, url, `ANALYZE`)
	examine("analyzed")
	// No event of a transaction is read before those that began earlier have ended, however many there are.
	held, err := connect(t, url).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(held.Exec(t.Context(), `SELECT pg_current_xact_id()`)))
	exec(t, url, `INSERT INTO journal (account_id, app_id, type) SELECT account_id, id, 'media.sealed' FROM app, generate_series(1, 50000)`)
	exec(t, url, `UPDATE webhook_progress SET epoch = journal_epoch(), xid = journal_oldest() - 1, event_id = 9223372036854775807`)
	epoch, oldest := number(t, url, `SELECT journal_epoch()`), number(t, url, `SELECT journal_oldest()`)
	statements = map[string]func(context.Context, *sqlgen.Queries){
		"read later events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Events(ctx, sqlgen.EventsParams{AccountID: foreign.AccountID, Epoch: epoch, Oldest: oldest, AfterEpoch: epoch, AfterXid: oldest, Examined: 1000, AllApps: true, Types: []string{}, Most: 100})
		},
		"read later webhook events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WebhookEvents(ctx, sqlgen.WebhookEventsParams{AccountID: foreign.AccountID, Epoch: epoch, Oldest: oldest, AfterEpoch: epoch, AfterXid: oldest, Most: 20})
		},
		"read all later webhook events": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WebhookEventsOfAll(ctx, sqlgen.WebhookEventsOfAllParams{Epoch: epoch, Oldest: oldest, AfterEpoch: epoch, AfterXid: oldest, Most: 20})
		},
		"find webhooks with later events": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.WebhooksWithNews(ctx, 1000) },
	}
	examine("beside a transaction that does not end")
	must(t, held.Rollback(t.Context()))
}

// Statistics of when there were hardly any drafts make an index of all drafts look as good as that of the ids. A statement that used it would
// read all drafts, which may be many a minute later.
func TestPlans_ADraftIsFoundByItsID(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	own := provisioned(t, store)
	conn := connect(t, url)
	withoutAutovacuum(t, url)
	seedItemRows(t, conn, own, "01900000-0000-7000-8000-", 1500, "public", "album", true)
	exec(t, url, `ANALYZE`)
	seedItemRows(t, conn, own, "01910000-0000-7000-8000-", 5*ownDrafts, "private", "", false)
	draft, free := uuid.MustParse("01910000-0000-7000-8000-000000000001"), uuid.MustParse("01910000-0000-7000-8000-000000000002")
	exec(t, url, `UPDATE stored_item SET gate_state = 1 WHERE sealed_at IS NULL AND id <> '01910000-0000-7000-8000-000000000002'`)
	exec(t, url, `UPDATE account_usage SET bytes = 1000000`)
	for name, run := range map[string]func(context.Context, *sqlgen.Queries){
		"seal": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.Seal(ctx, sqlgen.SealParams{AppID: own.AppID, ID: free, Now: time.Now()})
		},
		"want a seal": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.WantSeal(ctx, sqlgen.WantSealParams{AppID: own.AppID, ID: draft})
		},
		"let it pass": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PassItem(ctx, sqlgen.PassItemParams{AccountID: own.AccountID, ID: draft})
		},
		"deny it": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.DenyItem(ctx, sqlgen.DenyItemParams{AccountID: own.AccountID, ID: draft})
		},
		"quarantine it": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.QuarantineItem(ctx, sqlgen.QuarantineItemParams{AccountID: own.AccountID, ID: draft})
		},
		"delete a draft": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.DeleteItem(ctx, sqlgen.DeleteItemParams{AppID: own.AppID, ID: draft, DraftsOnly: true})
		},
	} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			explained := &explainer{conn: conn, mode: mode}
			run(t.Context(), sqlgen.New(explained))
			if !errors.Is(explained.err, errExplained) || explained.pages > maxPages {
				t.Errorf("%s, %s: %d pages are read, %v\n%s", name, mode, explained.pages, explained.err, explained.outline)
			}
		}
	}
}

// withoutAutovacuum keeps the tables of a database without statistics until they are analyzed.
func withoutAutovacuum(t *testing.T, url string) {
	t.Helper()
	exec(t, url, `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
			EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = false)', t);
		END LOOP; END $$`)
	// The list of migrations has enough rows for autovacuum to analyze it in the database of which this one is a copy.
	if n := number(t, url, `SELECT count(*) FROM pg_stats WHERE schemaname = 'public' AND tablename <> 'goose_db_version'`); n != 0 {
		t.Fatalf("%d columns have statistics", n)
	}
}

// seedItemRows adds n items of one kind, with ids that begin with prefix.
func seedItemRows(t *testing.T, conn *pgx.Conn, scope media.Scope, prefix string, n int, access, group string, sealed bool) {
	t.Helper()
	// The tests of migrations seed schemas of before.
	captureName, captures, present := "", "", false
	must(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'stored_item'::regclass AND attname = 'capture')`).Scan(&present))
	if present {
		captureName, captures = ", capture", ", jsonb_build_object('ms', 1700000000000 + i, 'cell', i * 1000)"
	}
	_, err := conn.Exec(t.Context(), `INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at`+captureName+`)
		SELECT ($3 || lpad(to_hex(i), 12, '0'))::uuid, $1, $2, 'photo.jpg', $5, '', $6,
			jsonb_build_array(jsonb_build_object('variant', 'original', 'key', 'media/' || i || '/original', 'bytes', 1, 'mimeType', 'image/jpeg', 'sha256', repeat(md5(i::text), 2))),
			1, now(), CASE WHEN $7 THEN now() END`+captures+` FROM generate_series(1, $4::int) AS i`,
		scope.AccountID, scope.AppID, prefix, n, access, group, sealed)
	must(t, err)
}

// seedRenditions adds one rendition of every item.
func seedRenditions(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `INSERT INTO rendition (item_id, key, id, account_id, preset, recipe_id, ready, bytes, lease_ends, sha256)
			SELECT id, sha256(uuid_send(id)), gen_random_uuid(), account_id, 'a', decode(repeat('00', 16), 'hex'), true, 1, now(), '' FROM item;
		INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes) SELECT account_id, preset, recipe_id, count(*), sum(bytes) FROM rendition GROUP BY 1, 2, 3;
		INSERT INTO rendition_eager (account_id, active, seen, before_id) SELECT id, true, 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff' FROM account;
		INSERT INTO work (kind, key, account_id) SELECT 'picture', id, account_id FROM item WHERE sealed_at IS NOT NULL`)
	must(t, err)
}

// errExplained is the result of a statement that was explained.
var errExplained = errors.New("the statement was explained")

// explainer executes statements with EXPLAIN, and changes nothing.
type explainer struct {
	conn *pgx.Conn
	mode string // plan_cache_mode
	// settings is a statement that is executed before the plan is made.
	settings string
	// early has the names of statements whose generic plans were made before; another one is planned and not executed. nil =
	// each plan is made as it is needed.
	early   map[string]string
	pages   int
	work    float64 // rows that the parts of the plan have read, compared or returned
	outline string
	plan    string
	err     error
}

// planNode is a part of a plan. Its numbers are averages of its loops.
type planNode struct {
	Loops   float64    `json:"Actual Loops"`
	Rows    float64    `json:"Actual Rows"`
	Filter  float64    `json:"Rows Removed by Filter"`
	Join    float64    `json:"Rows Removed by Join Filter"`
	Recheck float64    `json:"Rows Removed by Index Recheck"`
	Parts   []planNode `json:"Plans"`

	Type     string `json:"Node Type"`
	Subplan  string `json:"Subplan Name"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Checks   string `json:"Filter"`
}

// outline writes the parts of a plan as a tree.
func (n planNode) outline(indent string) string {
	text := fmt.Sprintf("%s%s %s %s %s: %.0f rows, %.0f removed, %.0f times\n", indent, n.Subplan, n.Type, n.Relation, n.Index, n.Rows, n.Filter+n.Join+n.Recheck, n.Loops)
	for _, part := range n.Parts {
		text += part.outline(indent + "  ")
	}
	return text
}

// work returns the rows of a part and of those below it.
func (n planNode) work() float64 {
	rows := n.Loops * (n.Rows + n.Filter + n.Join + n.Recheck)
	if strings.Contains(n.Checks, "ANY ($") { // an array that is searched for each row
		rows += n.Loops * n.Filter * planBatch
	}
	for _, part := range n.Parts {
		rows += part.work()
	}
	return rows
}

// Exec implements sqlgen.DBTX.
func (e *explainer) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	e.explain(ctx, sql, args)
	return pgconn.CommandTag{}, e.err
}

// Query implements sqlgen.DBTX.
func (e *explainer) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	e.explain(ctx, sql, args)
	return nil, e.err
}

// QueryRow implements sqlgen.DBTX.
func (e *explainer) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	e.explain(ctx, sql, args)
	return failedRow{e.err}
}

type failedRow struct{ err error }

// Scan implements pgx.Row.
func (r failedRow) Scan(...any) error { return r.err }

func (e *explainer) explain(ctx context.Context, sql string, args []any) {
	tx, err := e.conn.Begin(ctx)
	if err != nil {
		e.err = err
		return
	}
	defer func() {
		if err := tx.Rollback(ctx); err != nil { // the connection is closed: the next statement could not say why
			e.err = err
		}
	}()
	values, placeholders := []any{pgx.QueryExecModeSimpleProtocol}, make([]string, len(args))
	for i, arg := range args {
		switch list := arg.(type) { // the simple protocol encodes no arrays
		case []uuid.UUID:
			arg = strings.NewReplacer("[", "{", "]", "}", " ", ",").Replace(fmt.Sprint(list))
		case []string:
			if arg = nil; list != nil {
				texts := make([]string, len(list))
				for i, one := range list {
					texts[i] = strconv.Quote(one)
				}
				arg = "{" + strings.Join(texts, ",") + "}"
			}
		case [][]byte:
			texts := make([]string, len(list))
			for i, one := range list {
				texts[i] = strconv.Quote(fmt.Sprintf(`\x%x`, one))
			}
			arg = "{" + strings.Join(texts, ",") + "}"
		}
		values, placeholders[i] = append(values, arg), fmt.Sprintf("$%d", i+1)
	}
	var plan []byte
	name, how := "explained", "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
	prepare := []string{"DEALLOCATE ALL", "PREPARE explained AS " + sql}
	if e.early != nil {
		var known bool
		if name, known = e.early[sql]; known {
			prepare = nil
		} else {
			name, how = fmt.Sprintf("early%d", len(e.early)), "EXPLAIN (FORMAT JSON)"
			e.early[sql], prepare = name, []string{"PREPARE " + name + " AS " + sql}
		}
	}
	for _, statement := range append(prepare, "SET LOCAL plan_cache_mode = "+e.mode) {
		if _, e.err = tx.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); e.err != nil {
			return
		}
	}
	if e.settings != "" {
		if _, e.err = tx.Exec(ctx, e.settings, pgx.QueryExecModeSimpleProtocol); e.err != nil {
			return
		}
	}
	before, err := fetchedPages(ctx, tx)
	if err != nil {
		e.err = err
		return
	}
	if e.err = tx.QueryRow(ctx, how+" EXECUTE "+name+"("+strings.Join(placeholders, ", ")+")", values...).Scan(&plan); e.err != nil {
		return
	}
	after, err := fetchedPages(ctx, tx)
	if err != nil {
		e.err = err
		return
	}
	var explained []struct{ Plan planNode }
	if e.err = json.Unmarshal(plan, &explained); e.err != nil {
		return
	}
	top := explained[0].Plan
	e.pages, e.work, e.outline, e.plan, e.err = after-before, top.work(), top.outline("\t"), string(plan), errExplained
}

// fetchedPages returns the pages of tables and indexes that a transaction has read, without those of the catalogs. A plan counts these, too: up to
// 1,200 in a statement, as a connection loads its caches again when it has missed what others have changed in the catalogs, also of other databases.
func fetchedPages(ctx context.Context, tx pgx.Tx) (pages int, err error) {
	const firstNormalObjectID = 16384
	err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::int FROM pg_class WHERE oid >= %d`, firstNormalObjectID), pgx.QueryExecModeSimpleProtocol).Scan(&pages)
	return pages, err
}
