package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// tenants makes n accounts with this cap.
func tenants(t *testing.T, store *postgres.Store, n int, maxStorage int64) []media.Scope {
	t.Helper()
	scopes := make([]media.Scope, n)
	for i := range scopes {
		made, err := registry(store).Ensure(t.Context(), account.Spec{Namespace: "team", Name: fmt.Sprint("t-", i), MaxStorage: maxStorage, MaxUploadSize: maxStorage})
		must(t, err)
		apps, _, err := registry(store).OpenApps(t.Context(), made.ID, nil)
		must(t, err)
		scopes[i] = media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket}
	}
	return scopes
}

// uploading is an upload of some bytes.
type uploading struct {
	scope media.Scope
	id    uuid.UUID
	bytes int64
}

func newUploading(scope media.Scope, bytes int64) uploading {
	return uploading{scope: scope, id: uuid.Must(uuid.NewV7()), bytes: bytes}
}

func (u uploading) open(store *postgres.Store) error {
	return store.Uploads.OpenUpload(context.Background(), u.id, u.scope, u.bytes, time.Now().Add(time.Hour))
}

func (u uploading) commit(store *postgres.Store) error {
	return store.Uploads.CommitUpload(context.Background(), media.Item{ID: u.id, AccountID: u.scope.AccountID, AppID: u.scope.AppID, Access: media.Private,
		Objects: media.Objects{{Variant: media.Original, Key: "k", Bytes: u.bytes}}, CreatedAt: time.Now()}, account.Actor{})
}

// together runs do for all uploads so that the first one is a batch of its own, and all others are the
// next batch.
func together(t *testing.T, store *postgres.Store, batch string, uploads []uploading, do func(uploading, *postgres.Store) error) []error {
	t.Helper()
	first, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	postgres.HoldBatches(store, func(string, int) { once.Do(func() { close(first); <-release }) })
	errs := make([]error, len(uploads))
	var all sync.WaitGroup
	for i, u := range uploads {
		all.Go(func() { errs[i] = do(u, store) })
		if i == 0 {
			<-first
		}
	}
	wait.Until(t, "all uploads wait", func() bool {
		return measured(t, store, "mediastack_upload_batch_waiting", batch) == float64(len(uploads)-1)
	})
	close(release)
	all.Wait()
	return errs
}

// Uploads of many accounts share their transactions.
func TestUploads_OfManyAccountsShareTransactions(t *testing.T) {
	t.Parallel()
	_, url := setup(t)
	const n = 24
	store := open(t, url)
	scopes := tenants(t, store, n, 1000)
	var uploads []uploading
	for i := range 2 * n {
		uploads = append(uploads, newUploading(scopes[i%n], int64(100+i)))
	}
	must(t, errors.Join(together(t, store, "open", uploads, uploading.open)...))
	if got := number(t, url, `SELECT count(DISTINCT xmin::text) FROM upload`); got != 2 {
		t.Errorf("%d uploads were opened in %d transactions, want 2", len(uploads), got)
	}
	store = open(t, url)
	must(t, errors.Join(together(t, store, "commit", uploads, uploading.commit)...))
	if got := number(t, url, `SELECT count(DISTINCT xmin::text) FROM stored_item`); got != 2 {
		t.Errorf("%d uploads were committed in %d transactions, want 2", len(uploads), got)
	}
	if got := number(t, url, `SELECT count(*) FROM account_usage WHERE bytes <> (SELECT sum(bytes) FROM item WHERE item.account_id = account_usage.account_id)`); got != 0 {
		t.Errorf("the usage of %d accounts is wrong", got)
	}
}

// An upload that is rejected fails alone: one without room, one of an account that does not exist, and
// one that violates a foreign key.
func TestUploads_RejectedOnesFailAlone(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scopes := tenants(t, store, 4, 1000)
	missing, foreign := scopes[2], scopes[3]
	missing.AccountID = uuid.New()
	foreign.AppID = scopes[0].AppID
	const noFault = fault.Kind(-1) // an error of the database that no user can cause
	rejected := []struct {
		uploading
		kind fault.Kind
	}{{newUploading(scopes[1], 1001), fault.QuotaExceeded}, {newUploading(missing, 1), fault.NotFound}, {newUploading(foreign, 1), noFault}}
	good := []uploading{newUploading(scopes[0], 1), newUploading(scopes[0], 2), newUploading(scopes[1], 1000), newUploading(scopes[2], 3), newUploading(scopes[3], 4)}
	uploads := good
	for _, r := range rejected {
		uploads = append(uploads, r.uploading)
	}
	errs := together(t, store, "open", uploads, uploading.open)
	for i := range good {
		if errs[i] != nil {
			t.Errorf("good upload %d: %v", i, errs[i])
		}
	}
	for i, r := range rejected {
		if err := errs[len(good)+i]; err == nil || r.kind != noFault && !fault.Is(err, r.kind) {
			t.Errorf("upload %d: %v, want %v", i, err, r.kind)
		}
	}
	counts(t, url, 1+2+1000+3+4, "bytes are reserved", `SELECT sum(bytes)::bigint FROM account_usage`)
	// Of the commits, one has no upload.
	last := good[len(good)-1]
	errs = together(t, open(t, url), "commit", append(good, newUploading(scopes[1], 1)), uploading.commit)
	if err := errors.Join(errs[:len(good)]...); err != nil || !fault.Is(errs[len(good)], fault.NotFound) {
		t.Errorf("%v, %v", err, errs[len(good)])
	}
	if err := last.commit(store); !fault.Is(err, fault.NotFound) {
		t.Errorf("a second commit: %v", err)
	}
}

// While the row of one account is locked, the uploads of others are opened and committed, also those
// that come together with one of this account.
func TestUploads_LockedAccountDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scopes := tenants(t, store, 8, 1000)
	locked := scopes[3]
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, c := range []struct{ name, lock string }{
		{"usage", `SELECT FROM account_usage WHERE account_id = $1 FOR UPDATE`},
		{"app", `SELECT FROM app WHERE account_id = $1 FOR UPDATE`},
	} {
		tx, err := conn.Begin(t.Context())
		must(t, err)
		_, err = tx.Exec(t.Context(), c.lock, locked.AccountID)
		must(t, err)
		waiting := make(chan error, 100)
		sent := 0
		for round := range 5 {
			var uploads []uploading
			for _, scope := range scopes {
				uploads = append(uploads, newUploading(scope, 1))
			}
			var others sync.WaitGroup
			for _, u := range uploads {
				if u.scope == locked {
					sent++
					go func() { waiting <- errors.Join(u.open(store), u.commit(store)) }()
					continue
				}
				others.Go(func() {
					if err := errors.Join(u.open(store), u.commit(store)); err != nil {
						t.Errorf("%s, round %d: another account: %v", c.name, round, err)
					}
				})
			}
			others.Wait()
		}
		select {
		case err := <-waiting:
			t.Errorf("%s: an upload of the locked account has ended: %v", c.name, err)
			sent--
		default:
		}
		must(t, tx.Commit(t.Context()))
		for range sent {
			must(t, <-waiting)
		}
	}
	counts(t, url, 2*5*8, "bytes are used", `SELECT sum(bytes)::bigint FROM account_usage`)
}

// The purge ends an upload while it reserves bytes: they were counted for an upload that is gone, for good.
func TestReserve_CountsNothingForAnUploadThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := tenants(t, store, 1, 1000)[0]
	u := newUploading(scope, 10)
	must(t, u.open(store))
	purge := lockUsage(t, url, scope)
	_, err := purge.Exec(t.Context(), `WITH ended AS (DELETE FROM upload RETURNING reserved) UPDATE account_usage SET bytes = bytes - ended.reserved FROM ended`)
	must(t, err)
	reserved := make(chan error, 1)
	go func() { reserved <- store.Uploads.Reserve(t.Context(), u.id, scope, 20, time.Now().Add(time.Hour)) }()
	wait.Until(t, "the reservation waits", func() bool { return waiting(t, url) == 1 })
	must(t, purge.Commit(t.Context()))
	if err := <-reserved; !fault.Is(err, fault.NotFound) {
		t.Errorf("the reservation: %v", err)
	}
	if bytes := number(t, url, `SELECT bytes FROM account_usage`); bytes != 0 {
		t.Errorf("%d bytes are counted", bytes)
	}
}
