package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/upload"
)

// pictures adds n renditions of so many bytes, four of an item, which were used one second after the other.
func pictures(t *testing.T, url string, of media.Scope, n, bytes int) {
	t.Helper()
	exec(t, url, `INSERT INTO rendition (item_id, key, id, account_id, preset, recipe_id, ready, bytes, lease_ends, sha256, used_at)
		SELECT md5('item ' || i / 4)::uuid, sha256(convert_to($1 || ' ' || i, 'utf8')), gen_random_uuid(), $1::uuid, 'p' || i % 4, decode(repeat('00', 16), 'hex'), true, $3::int, now(), '',
			now() - interval '1 month' + i * interval '1 second'
		FROM generate_series(1, $2::int) AS i`, of.AccountID.String(), n, bytes)
	exec(t, url, `INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes)
		SELECT account_id, preset, recipe_id, count(*), sum(bytes) FROM rendition WHERE account_id = $1 GROUP BY 1, 2, 3`, of.AccountID)
	exec(t, url, `UPDATE account_usage SET bytes = bytes + $2, rendition_bytes = rendition_bytes + $2 WHERE account_id = $1`, of.AccountID, n*bytes)
}

// exact checks that the counters of an account equal a recount.
func exact(t *testing.T, store *postgres.Store, url string, of media.Scope) {
	t.Helper()
	if drift, err := store.Consistency.FindDrift(t.Context(), of.AccountID); err != nil || len(drift) > 0 {
		t.Errorf("drift: %v, %v", drift, err)
	}
	counts(t, url, 0, "totals of presets are wrong", `SELECT count(*) FROM rendition_total t WHERE account_id = $1 AND items <> (SELECT count(*) FROM rendition r WHERE r.account_id = t.account_id AND r.preset = t.preset AND r.recipe_id = t.recipe_id AND r.ready)`, of.AccountID)
}

func evicted(t *testing.T, store *postgres.Store, purpose string) int {
	t.Helper()
	return int(measured(t, store, "mediastack_rendition_evictions_total", purpose))
}

// Renditions were counted as evicted by transactions that were rolled back.
func TestEviction_CountsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := tenants(t, store, 1, 1000)[0]
	id := sha256.Sum256([]byte("capability"))
	capability := upload.Capability{ID: id[:], Count: 1, ExpiresAt: time.Now().Add(time.Hour)}
	first := newUploading(scope, 100)
	must(t, store.Uploads.OpenCountedUpload(t.Context(), first.id, scope, capability, 100, time.Now().Add(time.Hour)))
	pictures(t, url, scope, 90, 10)
	if err := store.Uploads.OpenCountedUpload(t.Context(), newUploading(scope, 100).id, scope, capability, 100, time.Now().Add(time.Hour)); !fault.Is(err, fault.InvalidSignature) {
		t.Fatalf("a second use of a capability: %v", err)
	}
	if n, left := evicted(t, store, "upload"), number(t, url, `SELECT count(*) FROM rendition`); n != 0 || left != 90 {
		t.Errorf("%d of 90 renditions are left, %d are counted", left, n)
	}
	must(t, newUploading(scope, 100).open(store))
	if n, left := evicted(t, store, "upload"), number(t, url, `SELECT count(*) FROM rendition`); n != 10 || left != 80 {
		t.Errorf("%d of 90 renditions are left, %d are counted", left, n)
	}
	exact(t, store, url, scope)
}

// batch is how many renditions one statement ends.
const batch = 2000

// An upload that needs the room of very many small renditions was rejected: each batch read the index from its start, and all of them
// had to end within the time of one transaction. MEDIASTACK_TEST_RENDITIONS makes the test longer.
func TestEviction_OfManyIsLinearAndInShortTransactions(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := newRetrying(t, url, url, func(c *postgres.Config) { c.StatementTimeout = 15 * time.Second }).Store
	n, size, left := 50_000, 5000, 3333
	if text := os.Getenv("MEDIASTACK_TEST_RENDITIONS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(t, err)
	}
	maxStorage := int64(n * size)
	scope := tenants(t, store, 1, maxStorage)[0]
	pictures(t, url, scope, n, size)
	exec(t, url, `VACUUM ANALYZE rendition`)

	if err := newUploading(scope, maxStorage+1).open(store); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("over the cap: %v", err)
	}
	if got := number(t, url, `SELECT count(*) FROM rendition`); got != int64(n) {
		t.Errorf("%d of %d renditions are left after an upload that does not fit", got, n)
	}
	entries := `SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'rendition'`
	before, started := number(t, url, entries), time.Now()
	must(t, newUploading(scope, int64((n-left)*size)).open(store))
	t.Logf("%d renditions ended in %s", n-left, time.Since(started).Round(time.Millisecond))
	if got := evicted(t, store, "upload"); got != n-left {
		t.Errorf("%d are counted as evicted", got)
	}
	store.Close() // its connections report their statistics
	wait.Until(t, "the statistics are there", func() bool {
		return number(t, url, `SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'rendition'`) >= int64(n-left)
	})
	// About twice as many as end; statistics of what was rejected before may come late. Batches that begin at the start of the index read
	// 13 times as many.
	if got := number(t, url, entries) - before; got > int64(4*n) {
		t.Errorf("%d entries of indexes were read to end %d renditions", got, n-left)
	}

	if got := number(t, url, `SELECT count(*) FROM rendition`); got != int64(left) {
		t.Errorf("%d renditions are left, want %d", got, left)
	}
	if got := number(t, url, `SELECT count(*) FROM rendition WHERE used_at > now() - interval '1 month' + $1 * interval '1 second' - interval '1 hour'`, n-left); got < int64(left) {
		t.Errorf("%d of those that are left were used last", got)
	}
	exact(t, open(t, url), url, scope)
	if got := number(t, url, `SELECT max(n) FROM (SELECT sum(cardinality(keys))::bigint AS n FROM object_removal GROUP BY xmin::text) AS transactions`); got > 2*batch {
		t.Errorf("one transaction ended %d renditions", got)
	}
	if got := number(t, url, `SELECT sum(cardinality(keys))::bigint FROM object_removal`); got != int64(n-left) {
		t.Errorf("the removal of %d objects is queued", got)
	}
}

// What ended ahead of an upload stays so if the upload ends, and every counter is exact.
func TestEviction_ThatStopsHalfWayLosesRenditionsOnly(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	const n, size = 5 * batch, 10
	scope := tenants(t, store, 1, n*size)[0]
	pictures(t, url, scope, n, size)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM rendition WHERE id = (SELECT id FROM rendition ORDER BY used_at OFFSET $1 LIMIT 1) FOR UPDATE`, 2*batch+10) // in the third batch
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		u := newUploading(scope, n*size)
		result <- store.Uploads.OpenUpload(ctx, u.id, u.scope, u.bytes, time.Now().Add(time.Hour))
	}()
	wait.Until(t, "two batches have ended, and the third one waits", func() bool {
		return number(t, url, `SELECT count(*) FROM rendition`) == n-2*batch && number(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("an upload whose client has gone: %v", err)
	}
	must(t, tx.Rollback(t.Context()))
	if left, uploads := number(t, url, `SELECT count(*) FROM rendition`), number(t, url, `SELECT count(*) FROM upload`); left != n-2*batch || uploads != 0 || evicted(t, store, "upload") != 2*batch {
		t.Errorf("%d renditions and %d uploads are left, %d are counted", left, uploads, evicted(t, store, "upload"))
	}
	exact(t, store, url, scope)
	must(t, newUploading(scope, n*size).open(store))
	counts(t, url, 0, "renditions are left", `SELECT count(*) FROM rendition`)
	exact(t, store, url, scope)
}

// Uploads that need the room of very many renditions at once take no room from each other, while renditions are used.
func TestEviction_RacesWithItself(t *testing.T) {
	t.Parallel()
	first, url := setup(t)
	stores := []*postgres.Store{first, open(t, url)}
	const n, size, uploads = 10 * batch, 10, 4
	scope := tenants(t, first, 1, n*size)[0]
	pictures(t, url, scope, n, size)
	var used []rendition.Ref
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), `SELECT item_id, key FROM rendition ORDER BY used_at LIMIT 100`)
	must(t, err)
	for rows.Next() {
		var ref rendition.Ref
		var key []byte
		must(t, rows.Scan(&ref.ItemID, &key))
		copy(ref.Key[:], key)
		used = append(used, ref)
	}
	must(t, rows.Err())
	var all sync.WaitGroup
	for i := range uploads {
		all.Go(func() {
			if err := newUploading(scope, n*size/uploads).open(stores[i%2]); err != nil {
				t.Errorf("upload %d: %v", i, err)
			}
		})
		all.Go(func() {
			for range 20 {
				if err := stores[i%2].Pictures.TouchRenditions(t.Context(), used, time.Now(), time.Now()); err != nil {
					t.Errorf("touch: %v", err)
				}
			}
		})
	}
	all.Wait()
	counts(t, url, 0, "renditions are left", `SELECT count(*) FROM rendition`)
	exact(t, first, url, scope)
	if err := newUploading(scope, 1).open(first); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("over the cap: %v", err)
	}
}

// reserved makes a claim of a new item, of which bytes are reserved.
func reserved(t *testing.T, store *postgres.Store, of media.Scope, item uuid.UUID, key byte, bytes int64) rendition.Claim {
	t.Helper()
	claim := claimed(t, store, of, item, key)
	if ok, err := store.Pictures.ReserveRendition(t.Context(), claim, bytes); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return claim
}

func claimed(t *testing.T, store *postgres.Store, of media.Scope, item uuid.UUID, key byte) rendition.Claim {
	t.Helper()
	claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item, Key: media.RenditionKey{key}}, AccountID: of.AccountID, Preset: "a", Lease: time.Hour}
	if ok, err := store.Pictures.ClaimRendition(t.Context(), claim); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return claim
}

// made is the result of a claim.
var made = rendition.Result{Width: 1, Height: 1, Object: media.Object{MimeType: "image/webp", SHA256: make([]byte, 32)}}

// committed makes an item of one byte.
func committed(t *testing.T, store *postgres.Store, of media.Scope) uuid.UUID {
	t.Helper()
	u := newUploading(of, 1)
	must(t, u.open(store))
	must(t, u.commit(store))
	return u.id
}

// lockUsage locks the usage of an account until the transaction that it returns ends.
func lockUsage(t *testing.T, url string, of media.Scope) pgx.Tx {
	t.Helper()
	conn := connect(t, url)
	tx, err := conn.Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `SELECT FROM account_usage WHERE account_id = $1 FOR UPDATE`, of.AccountID)))
	return tx
}

// waiting returns how many sessions wait for a lock.
func waiting(t *testing.T, url string) int64 {
	t.Helper()
	return number(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// Two renditions that two processes finish at once, for two points of focus, both stayed: neither statement saw the other one.
func TestFinish_ReplacesWhatWasFinishedAtTheSameTime(t *testing.T) {
	t.Parallel()
	first, url := setup(t)
	stores := []*postgres.Store{first, open(t, url)}
	scope := tenants(t, first, 1, 1000)[0]
	item := committed(t, first, scope)
	var claims []rendition.Claim
	for i, store := range stores {
		postgres.FinishLockTimeout(store, time.Minute)
		claims = append(claims, reserved(t, first, scope, item, byte(i), 10))
	}
	tx := lockUsage(t, url, scope)
	finished := make(chan error, len(stores))
	for i, store := range stores {
		go func() { finished <- store.Pictures.FinishRendition(t.Context(), claims[i], made) }()
	}
	wait.Until(t, "both wait for the usage", func() bool { return waiting(t, url) == 2 })
	must(t, tx.Commit(t.Context()))
	for range stores {
		must(t, <-finished)
	}
	counts(t, url, 1, "renditions of one recipe are left", `SELECT count(*) FROM rendition`)
	exact(t, first, url, scope)
}

// What ended a claim waited for the usage of a locked account without a bound of its own, and kept a connection.
func TestRenditions_EndsDoNotWaitForALockedAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := tenants(t, store, 1, 1000)[0]
	item := committed(t, store, scope)
	postgres.FinishLockTimeout(store, 10*time.Millisecond)
	claim, ended := reserved(t, store, scope, item, 1, 10), reserved(t, store, scope, item, 2, 10)
	exec(t, url, `UPDATE rendition SET lease_ends = now() - interval '1s' WHERE id = $1`, ended.ID)
	next := ended
	next.ID = uuid.New()
	tx := lockUsage(t, url, scope)
	if err := store.Pictures.AbandonRendition(t.Context(), claim); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a claim is abandoned: %v", err)
	}
	if ok, err := store.Pictures.ClaimRendition(t.Context(), next); ok || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a claim whose lease has ended: %t, %v", ok, err)
	}
	must(t, tx.Rollback(t.Context()))
	postgres.FinishLockTimeout(store, time.Minute)
	must(t, store.Pictures.AbandonRendition(t.Context(), claim))
	if ok, err := store.Pictures.ClaimRendition(t.Context(), next); err != nil || !ok {
		t.Errorf("%t, %v", ok, err)
	}
	exact(t, store, url, scope)
}

// Statements of renditions took connections of the pool outside of the shares of the accounts: those of one account whose row
// was locked took all of them.
func TestRenditions_AnAccountLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	const n = 200
	for name, hang := range map[string]func(ctx context.Context, store *postgres.Store, claim rendition.Claim) error{
		"reserve": func(ctx context.Context, store *postgres.Store, claim rendition.Claim) error {
			_, err := store.Pictures.ReserveRendition(ctx, claim, 1)
			return err
		},
		"finish": func(ctx context.Context, store *postgres.Store, claim rendition.Claim) error {
			return store.Pictures.FinishRendition(ctx, claim, made)
		},
		"find": func(ctx context.Context, store *postgres.Store, claim rendition.Claim) error {
			_, _, err := store.Pictures.FindRendition(ctx, claim.AccountID, claim.Ref)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, url := setup(t)
			scopes := tenants(t, store, 2, 1000)
			flooding, other := scopes[0], scopes[1]
			claims := make([]rendition.Claim, n)
			item := committed(t, store, flooding)
			for i := range claims {
				claims[i] = claimed(t, store, flooding, item, byte(i))
			}
			if name == "finish" {
				exec(t, url, `UPDATE rendition SET bytes = 1`)
				exec(t, url, `UPDATE account_usage SET bytes = bytes + $2, rendition_bytes = $2 WHERE account_id = $1`, flooding.AccountID, n)
			}
			tx := lockUsage(t, url, flooding)
			if name == "find" { // what follows needs no rendition
				must(t, check.ErrorOf(tx.Exec(t.Context(), `LOCK TABLE rendition IN ACCESS EXCLUSIVE MODE`)))
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout(t))
			defer cancel()
			ended := make(chan error, n)
			for _, claim := range claims {
				go func() { ended <- hang(ctx, store, claim) }()
			}
			wait.Until(t, "one waits", func() bool { return waiting(t, url) > 0 })
			must(t, store.Ping(ctx))
			u := newUploading(other, 1)
			must(t, u.open(store))
			must(t, u.commit(store))
			if _, err := store.Items.ListItems(ctx, other, media.Filter{}, 10, 0); err != nil {
				t.Errorf("the list of the other account: %v", err)
			}
			if n := waiting(t, url); n > 1 {
				t.Errorf("%d connections wait for the account", n)
			}
			must(t, tx.Rollback(t.Context()))
			for range n {
				if err := <-ended; err != nil && !fault.Is(err, fault.Unavailable) {
					t.Errorf("%v", err)
				}
			}
			exact(t, store, url, flooding)
		})
	}
}
