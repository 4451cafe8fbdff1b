package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

const (
	// batchRows are the rows of each table, half of which are of one account, and batchAccounts the accounts.
	batchRows     = 20_000
	batchAccounts = 2000
	// planBatch is the batch of each statement, and maxBatchWork bounds the rows that all parts of its plan read, compare
	// or return. The purge and the service may read a table some times for a batch; it compares no table with each row
	// of the batch, which is ten times as much. An erasure, which is of many batches, reads little more than its rows.
	planBatch    = 50
	maxBatchWork = 5 * batchRows
	maxEraseWork = 20 * postgres.EraseBatch
)

// A statement on a batch looks its rows up, also in tables that were never analyzed: a plan that joins the batch with the
// table compared each of 20,000 items of a fresh account with each of the 1000 of a batch, which took so long that the
// operator declared PostgreSQL away.
func TestBatchPlans_LookTheirRowsUp(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	withoutAutovacuum(t, url)
	conn := connect(t, url)
	early := map[string]string{}
	explain := func(name, mode string, of *pgx.Conn, early map[string]string) *explainer {
		explained := &explainer{conn: of, mode: mode, early: early}
		switch word, _, _ := strings.Cut(name, " "); {
		case word == "erase":
			explained.settings = postgres.ErasePlanner
		case word == "purge", word == "evict", name == "end tombstones": // the purge, and what runs after LockUsage
			explained.settings = postgres.MaintenancePlans
		case early != nil && keepsPlan[name] != "":
			explained.mode = "force_custom_plan"
		}
		batchStatements()[name](t.Context(), sqlgen.New(explained))
		if !errors.Is(explained.err, errExplained) {
			t.Errorf("%s: %v", name, explained.err)
		}
		return explained
	}
	names := slices.Sorted(maps.Keys(batchStatements()))
	// The driver keeps prepared statements, and PostgreSQL their plans, until the tables are analyzed.
	keeping := connect(t, url)
	for _, name := range names {
		explain(name, "force_generic_plan", keeping, early)
	}
	seedBatches(t, url)
	check := func(statistics, mode string, of *pgx.Conn, early map[string]string) {
		t.Helper()
		for _, name := range names {
			most := float64(maxBatchWork)
			if strings.HasPrefix(name, "erase ") && name != "erase tokens" { // which reads the grants of the account
				most = maxEraseWork
			}
			switch explained := explain(name, mode, of, early); {
			case explained.work > most:
				t.Errorf("%s, %s, %s: the parts of the plan have %.0f rows, not at most %.0f\n%s", name, statistics, mode, explained.work, most, explained.outline)
			case explained.work < planBatch && !strings.HasPrefix(name, "small: "):
				t.Errorf("%s, %s: the parts of the plan have %.0f rows: the statement found no batch\n%s", name, statistics, explained.work, explained.outline)
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

// keepsPlan are the statements of requests that may keep a plan which was made for empty tables, until the tables are analyzed: a
// minute after they have rows.
var keepsPlan = map[string]string{
	"find principals": "it compares the keys of a batch with the accounts, not with items",
	"skip facts":      "the backfill of an update, whose tables have statistics",
	"touch grants":    "it compares the grants of a flush with those of the installation, not with items",
}

// The ids of rows in seedBatches are these prefixes and a number.
const (
	accountIDs = "01a00000"
	appIDs     = "01b00000"
	keyIDs     = "01c00000"
	uploadIDs  = "01d00000"
	resumeIDs  = "01d10000"
	grantIDs   = "01e00000"
	itemIDs    = "01f00000"
)

func numbered(prefix string, n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("%s-0000-7000-8000-%012x", prefix, n))
}

// manyOf returns the ids of a batch, far from each other.
func manyOf(prefix string, n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = numbered(prefix, 2+i*(batchRows/planBatch))
	}
	return ids
}

func repeated[T any](v T) []T {
	all := make([]T, planBatch)
	for i := range all {
		all[i] = v
	}
	return all
}

// seedBatches adds rows to the tables that have many. The account 1 is being erased, the account 2 has the other half of the
// rows. Everything is due for the purge: a third of the items are drafts, another third are deleted.
func seedBatches(t *testing.T, url string) {
	t.Helper()
	id := func(prefix, n string) string {
		return "('" + prefix + "-0000-7000-8000-' || lpad(to_hex(" + n + "), 12, '0'))::uuid"
	}
	owner, of := id(accountIDs, "1 + n % 2"), id(appIDs, "1 + n % 2")
	for _, insert := range []string{
		`INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended, closed_at, erase_after, erasing_at, bucket_removed_at)
			SELECT ` + id(accountIDs, "n") + `, 'team', 'a' || n, 'u', 'o' || n, '', '{}', 1000000000000, 1000, 'b' || n, false,
				CASE n WHEN 1 THEN now() END, CASE n WHEN 1 THEN now() END, CASE n WHEN 1 THEN now() END, CASE n WHEN 1 THEN now() END FROM generate_series(1, $2::int) n WHERE $1 > 0`,
		`INSERT INTO account_usage (account_id, bytes, rendition_bytes) SELECT ` + id(accountIDs, "n") + `, 10000000, 1000000 FROM generate_series(1, $2::int) n WHERE $1 > 0`,
		`INSERT INTO app (id, account_id, name) SELECT ` + id(appIDs, "n") + `, ` + id(accountIDs, "n") + `, 'default' FROM generate_series(1, $2::int) n WHERE $1 > 0`,
		`INSERT INTO app_total (app_id, account_id, slot) SELECT ` + id(appIDs, "n") + `, ` + id(accountIDs, "n") + `, slot FROM generate_series(1, $2::int) n, generate_series(0, 15) slot WHERE $1 > 0`,
		`INSERT INTO stored_item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at, deleted_at, restorable_until, was_sealed_at)
			SELECT ` + id(itemIDs, "n") + `, ` + owner + `, ` + of + `, 'photo.jpg', 'private', '', 'g' || n, '[{"variant": "original", "key": "k", "bytes": 1}]', 1, now() - interval '10 days',
				CASE n / 2 % 3 WHEN 1 THEN now() END, CASE n / 2 % 3 WHEN 2 THEN now() - interval '9 days' END, CASE n / 2 % 3 WHEN 2 THEN now() - interval '8 days' END, CASE n / 2 % 3 WHEN 2 THEN now() - interval '10 days' END
			FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO rendition (item_id, key, id, account_id, preset, recipe_id, ready, bytes, lease_ends, sha256, used_at)
			SELECT ` + id(itemIDs, "n") + `, decode(repeat('00', 32), 'hex'), gen_random_uuid(), ` + owner + `, 'a', decode(repeat('00', 16), 'hex'), n % 4 < 2, n % 4 / 2 * -1 + 1, now() - interval '9 days', '', now() - interval '9 days'
			FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes, stale_since)
			SELECT ` + id(accountIDs, "n") + `, p, decode(repeat('00', 16), 'hex'), 10000000, 10000000, CASE n WHEN 2 THEN now() - interval '9 days' END FROM generate_series(1, $2::int) n, unnest('{a,b,c,d,e,f,g,h}'::text[]) p WHERE $1 > 0`,
		`INSERT INTO rendition_queue (item_id, account_id) SELECT ` + id(itemIDs, "n") + `, ` + owner + ` FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT ` + of + `, ` + id(itemIDs, "n") + `, '', 1, false FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO group_total (app_id, group_label, slot) SELECT ` + of + `, 'g' || n, 0 FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before) SELECT ` + owner + `, 'b', '{k}', false, now() - interval '1 day' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO cdn_purge (account_id, item_id, due_at, sent_at) SELECT ` + owner + `, ` + id(itemIDs, "n") + `, now() - interval '1 day', CASE WHEN n % 2 = 0 THEN now() - interval '1 day' END FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends) SELECT ` + id(uploadIDs, "n") + `, ` + owner + `, ` + of + `, 1, now() - interval '1 day' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO upload_writer (instance_id, account_id, bucket, since, ended_at)
			SELECT ` + id(accountIDs, "n % 10") + `, ` + owner + `, 'b', ` + id(itemIDs, "n") + `, CASE WHEN n % 2 = 0 THEN now() - interval '1 day' END FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO resumable_upload (item_id, account_id, app_id, file_name, declared_type, access, caption, group_label, expires_at)
			SELECT ` + id(resumeIDs, "n") + `, ` + owner + `, ` + of + `, '', '', 'public', '', '', now() - interval '1 day' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO capability_use (id, account_id, uses, expires_at) SELECT sha256(n::text::bytea), ` + owner + `, 100, now() - interval '1 day' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO api_key (id, account_id, app_id, hash, generation, sequence, object_uid, overlap, delivered_at, expires_at)
			SELECT ` + id(keyIDs, "n") + `, ` + owner + `, ` + of + `, sha256(n::text::bytea), 1, n, '', 0, now(), CASE WHEN n % 4 > 1 THEN now() - interval '9 days' END FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO api_key_use (key_id, last_used_at) SELECT id, now() FROM api_key WHERE $1 > 0 AND $2 > 0`,
		`INSERT INTO oauth_client (id, name, website, redirect_uris, created_at) SELECT 'c' || n, '', '', '{}', now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO oauth_grant (id, account_id, key_id, email, client_id, client_name, redirect_uri, scopes, resource, created_at, revoked_at)
			SELECT ` + id(grantIDs, "n") + `, ` + owner + `, ` + id(keyIDs, "n") + `, 'u' || n, 'c' || n, '', '', '{}', '', now() - interval '9 days', CASE WHEN n % 8 > 3 THEN now() - interval '9 days' END FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO oauth_token (hash, grant_id, refresh, created_at, expires_at) SELECT sha256(n::text::bytea), ` + id(grantIDs, "n") + `, false, now() - interval '9 days', now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO oauth_code (hash, grant_id, code_challenge, expires_at) SELECT sha256(n::text::bytea), ` + id(grantIDs, "n") + `, '', now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO login_session (id, cookie_hash, expires_at) SELECT gen_random_uuid(), sha256(n::text::bytea), now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO rate_limit_event (kind, subject_mac, times, last_time) SELECT 'k', n::text::bytea, '{}', now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO email_outbox (encrypted, not_before, expires_at) SELECT '', now() - interval '9 days', now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO work (kind, key, account_id, due_at, expires_at) SELECT kind, gen_random_uuid(), CASE kind WHEN 'test' THEN ` + owner + ` ELSE '00000000-0000-0000-0000-000000000000' END,
			now() - interval '9 days', CASE kind WHEN 'email' THEN now() - interval '9 days' END FROM generate_series(1, $1::int) n, (VALUES ('email'), ('test')) AS of (kind) WHERE $2 > 0`,
		`INSERT INTO quarantine (item_id, account_id, app_id, at, finding, item, objects, bytes) SELECT ` + id(itemIDs, "n") + `, ` + owner + `, ` + of + `, now() - interval '9 days', 'x', '{"file_name": "a"}', '[{"key": "k"}]', 1 FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO approval (id, account_id, app_id, connection, key_id, actor, created_at, expires_at, opened_at) SELECT ` + id(itemIDs, "n") + `, ` + owner + `, ` + of + `, 'c', ` + id(keyIDs, "n") + `, '{}', now() - interval '9 days', now() - interval '9 days', now() FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO approval_step (id, approval_id, operation, arguments, digest, version, bytes) SELECT ` + id(itemIDs, "n") + `, ` + id(itemIDs, "n") + `, 'delete_media', '{}', sha256(n::text::bytea), 1, 1 FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO upload_request (id, account_id, app_id, key_id, connection, capability_id, capability, created_at, expires_at) SELECT ` + id(itemIDs, "n") + `, ` + owner + `, ` + of + `, ` + id(keyIDs, "n") + `, 'c', sha256(n::text::bytea), '{}', now() - interval '9 days', now() - interval '9 days' FROM generate_series(1, $1::int) n WHERE $2 > 0`,
		`INSERT INTO fetch_job (id, account_id, app_id, key_id, url, file_name, access, caption, group_label, metadata, seal, created_at, state, ended_at)
			SELECT gen_random_uuid(), ` + owner + `, ` + of + `, ` + id(keyIDs, "n") + `, '', '', 'public', '', '', '{}', false, now() - interval '9 days', CASE n % 4 / 2 WHEN 1 THEN 'done' ELSE 'queued' END, CASE n % 4 / 2 WHEN 1 THEN now() - interval '9 days' END
			FROM generate_series(1, $1::int) n WHERE $2 > 0`,
	} {
		exec(t, url, insert, batchRows, batchAccounts)
	}
}

// batchStatements are the statements on batches, by what they do. Those that are named erase run with the settings of
// EraseRows only. A new one that names rows by a join belongs here.
func batchStatements() map[string]func(context.Context, *sqlgen.Queries) {
	erased, day := numbered(accountIDs, 1), time.Now().Add(-24*time.Hour)
	erasedApp := numbered(appIDs, 1)
	items, accounts := manyOf(itemIDs, planBatch), repeated(numbered(accountIDs, 2))
	hashes := make([][]byte, planBatch)
	for i := range hashes {
		hash := sha256.Sum256(strconv.AppendInt(nil, int64(1+4*i), 10)) // of a valid key of the account 2
		hashes[i] = hash[:]
	}
	return map[string]func(context.Context, *sqlgen.Queries){
		"end approvals that have expired": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EndExpiredApprovals(ctx, sqlgen.EndExpiredApprovalsParams{Now: day, Batch: planBatch})
		},
		"purge approvals": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ExpireApprovals(ctx, sqlgen.ExpireApprovalsParams{Cutoff: day, Batch: planBatch})
		},
		"purge upload requests": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ExpireUploadRequests(ctx, sqlgen.ExpireUploadRequestsParams{Cutoff: day, Batch: planBatch})
		},
		"purge quarantine": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ExpireQuarantine(ctx, sqlgen.ExpireQuarantineParams{Cutoff: day, Batch: planBatch})
		},
		"trim the quarantine": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.TrimQuarantine(ctx, sqlgen.TrimQuarantineParams{AccountID: accounts[0], Files: batchRows/2 - planBatch, Percent: 100})
		},
		"list the quarantine": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ListQuarantine(ctx, sqlgen.ListQuarantineParams{Before: time.Now(), Batch: 100})
		},
		"erase items": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseItems(ctx, sqlgen.EraseItemsParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"erase deltas": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ErasePageDeltas(ctx, sqlgen.ErasePageDeltasParams{AppID: erasedApp, Batch: postgres.EraseBatch})
		},
		"erase groups": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseGroupTotals(ctx, sqlgen.EraseGroupTotalsParams{AppID: erasedApp, Batch: postgres.EraseBatch})
		},
		"erase removals": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseRemovals(ctx, sqlgen.EraseRemovalsParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"erase uploads": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseUploads(ctx, sqlgen.EraseUploadsParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"erase resumable uploads": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseResumableUploads(ctx, sqlgen.EraseResumableUploadsParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"erase fetches": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseFetches(ctx, sqlgen.EraseFetchesParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"erase keys": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseKeys(ctx, sqlgen.EraseKeysParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"erase grants": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseOAuthGrants(ctx, sqlgen.EraseOAuthGrantsParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
		"purge drafts": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeDrafts(ctx, sqlgen.PurgeDraftsParams{Cutoff: day, Batch: planBatch})
		},
		"skip facts": func(ctx context.Context, q *sqlgen.Queries) { _ = q.SkipFacts(ctx, items) },
		"touch renditions": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.TouchRenditions(ctx, sqlgen.TouchRenditionsParams{ItemIds: items, Keys: repeated(make([]byte, 32)), Now: time.Now(), Before: day})
		},
		"purge claims": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EndClaims(ctx, sqlgen.EndClaimsParams{Cutoff: day, Batch: planBatch})
		},
		"purge stale renditions": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EndStaleRenditions(ctx, sqlgen.EndStaleRenditionsParams{Cutoff: day, Kept: []uuid.UUID{}, Batch: planBatch})
		},
		"evict renditions": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EvictRenditions(ctx, sqlgen.EvictRenditionsParams{AccountID: accounts[0], Batch: planBatch, Needed: planBatch})
		},
		"count presets": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PresetTotalsAfter(ctx, sqlgen.PresetTotalsAfterParams{Page: planBatch})
		},
		"adopt pictures": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.AdoptPictures(ctx, planBatch) },
		"open uploads": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.OpenUploads(ctx, sqlgen.OpenUploadsParams{LockTimeout: "0", ItemIds: manyOf("01d20000", planBatch), AccountIds: accounts, AppIds: repeated(numbered(appIDs, 2)), Bytes: repeated(int64(1)), LeaseEnds: repeated(time.Now())})
		},
		"commit uploads": func(ctx context.Context, q *sqlgen.Queries) {
			names, numbers := repeated("a"), repeated(int32(1))
			_, _ = q.CommitUploads(ctx, sqlgen.CommitUploadsParams{LockTimeout: "0", Ids: manyOf(uploadIDs, planBatch), FileNames: names, Accesses: repeated("public"), Captions: names, Groups: names, Objects: repeated("[]"),
				Bytes: repeated(int64(1)), CreatedAt: repeated(time.Now()), Metadata: repeated("{}"), Widths: numbers, Heights: numbers, Placeholders: repeated([]byte{1}), DominantColors: names, Refs: names, Durations: repeated(int64(0)), Pages: numbers})
		},
		"commit stored": func(ctx context.Context, q *sqlgen.Queries) {
			names, numbers, writers := repeated("a"), repeated(int32(1)), make([]int64, planBatch)
			for i := range writers {
				writers[i] = int64(2*i + 1) // one that has not ended
			}
			_, _ = q.CommitStored(ctx, sqlgen.CommitStoredParams{LockTimeout: "0", Writers: writers, Fences: repeated(int64(0)), KeyIds: repeated(uuid.Nil), AccountIds: accounts, AppIds: repeated(numbered(appIDs, 2)),
				Ids: manyOf("01d30000", planBatch), FileNames: names, Accesses: repeated("public"), Captions: names, Groups: names, Objects: repeated("[]"),
				Bytes: repeated(int64(1)), CreatedAt: repeated(time.Now()), Metadata: repeated("{}"), Widths: numbers, Heights: numbers, Placeholders: repeated([]byte{1}), DominantColors: names, Refs: names, Durations: repeated(int64(0)), Pages: numbers})
		},
		"small: end writers": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.EndWriters(ctx, sqlgen.EndWritersParams{Batch: planBatch})
		},
		"enqueue searches": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EnqueueSearches(ctx, sqlgen.EnqueueSearchesParams{Kind: "unrecorded_objects"})
		},
		"queue unrecorded": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.QueueUnrecorded(ctx, sqlgen.QueueUnrecordedParams{AccountID: accounts[0], Bucket: "b", ItemIds: items, Keys: repeated("k")})
		},
		"end uploads": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.EndUploads(ctx, sqlgen.EndUploadsParams{NotBefore: day, ItemIds: manyOf(uploadIDs, planBatch), AccountIds: accounts, Buckets: repeated("b"), Keys: repeated("k")})
		},
		"end tombstones": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EndTombstones(ctx, sqlgen.EndTombstonesParams{AccountIds: accounts, Ids: items})
		},
		"due removals": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.DueRemovals(ctx, sqlgen.DueRemovalsParams{AccountID: accounts[0], Now: day.Add(time.Hour), Batch: planBatch})
		},
		"small: enqueue removals": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EnqueueRemovals(ctx, sqlgen.EnqueueRemovalsParams{Kind: "removal", Now: day.Add(time.Hour)})
		},
		"purge resumable uploads": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.DeleteExpiredResumables(ctx, sqlgen.DeleteExpiredResumablesParams{Cutoff: time.Now(), Batch: planBatch})
		},
		"release capabilities": func(ctx context.Context, q *sqlgen.Queries) { _ = q.ReleaseCapabilities(ctx, hashes) },
		"find principals":      func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.Principals(ctx, hashes) },
		"purge capabilities": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.DeleteExpiredCapabilities(ctx, sqlgen.DeleteExpiredCapabilitiesParams{Cutoff: time.Now(), Batch: planBatch})
		},
		"due purges of a CDN": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.DueCDNPurges(ctx, planBatch) },
		"small: enqueue purges of a CDN": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EnqueueCDNPurges(ctx, sqlgen.EnqueueCDNPurgesParams{Kind: "cdn_purge"})
		},
		"purges of a CDN that were sent": func(ctx context.Context, q *sqlgen.Queries) {
			ids := make([]int64, planBatch)
			for i := range ids {
				ids[i] = int64(1 + i*(batchRows/planBatch))
			}
			_ = q.CDNPurgesSent(ctx, sqlgen.CDNPurgesSentParams{First: ids, Again: ids})
		},
		"purge the queue of a CDN": func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.ForgetPurges(ctx, planBatch) },
		"adopt e-mails":            func(ctx context.Context, q *sqlgen.Queries) { _, _ = q.AdoptEmails(ctx, "adopted") },
		"claim tasks of no account": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ClaimTasks(ctx, sqlgen.ClaimTasksParams{Kind: "email", Batch: planBatch, PerAccount: math.MaxInt32})
		},
		"claim tasks of accounts": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.ClaimTasks(ctx, sqlgen.ClaimTasksParams{Kind: "test", Batch: planBatch, PerAccount: 10})
		},
		"purge tasks": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeTasks(ctx, sqlgen.PurgeTasksParams{Before: day, Batch: planBatch})
		},
		"small: enqueue fetches": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EnqueueFetches(ctx, sqlgen.EnqueueFetchesParams{Kind: "fetch"})
		},
		"small: starved fetch": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.StarvedFetch(ctx, sqlgen.StarvedFetchParams{Kind: "fetch"})
		},
		"purge fetches": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeFetches(ctx, sqlgen.PurgeFetchesParams{Kind: "fetch", Cutoff: day, Batch: planBatch, ErrorCode: "interrupted"})
		},
		"touch grants": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.TouchGrants(ctx, sqlgen.TouchGrantsParams{Ids: manyOf(grantIDs, planBatch), UsedAt: repeated(time.Now()), Requests: repeated(int64(1))})
		},
		"touch keys": func(ctx context.Context, q *sqlgen.Queries) {
			_ = q.TouchKeys(ctx, sqlgen.TouchKeysParams{Ids: manyOf(keyIDs, planBatch), UsedAt: repeated(time.Now())})
		},
		"small: revoke the grants of an owner": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.RevokeGrantsByEmail(ctx, sqlgen.RevokeGrantsByEmailParams{Email: "u8", Now: time.Now()})
		},
		"purge login sessions": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeLoginSessions(ctx, sqlgen.PurgeLoginSessionsParams{Before: day, Batch: planBatch})
		},
		"purge tokens": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeTokens(ctx, sqlgen.PurgeTokensParams{Before: day, Batch: planBatch})
		},
		"purge rate limits": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeRateLimitEvents(ctx, sqlgen.PurgeRateLimitEventsParams{Before: day, Batch: planBatch})
		},
		"purge keys": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeKeys(ctx, sqlgen.PurgeKeysParams{Retention: int64(time.Hour / time.Microsecond), Batch: planBatch})
		},
		"purge e-mails": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeEmails(ctx, sqlgen.PurgeEmailsParams{Before: day, Batch: planBatch})
		},
		"purge grants": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeGrants(ctx, sqlgen.PurgeGrantsParams{Before: day, Batch: planBatch})
		},
		"purge clients": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.PurgeClients(ctx, sqlgen.PurgeClientsParams{Before: day, Batch: planBatch})
		},
		"erase tokens": func(ctx context.Context, q *sqlgen.Queries) {
			_, _ = q.EraseOAuthTokens(ctx, sqlgen.EraseOAuthTokensParams{AccountID: erased, Batch: postgres.EraseBatch})
		},
	}
}
