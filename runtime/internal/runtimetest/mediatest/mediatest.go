// Package mediatest is the test environment of the packages media and upload: a database, a bucket, the services that use them, and checks
// of what is stored. All parts are real, except for the clock.
package mediatest

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

var (
	// Config is the configuration of uploads, except of a test that is about it.
	Config = upload.Config{MaxUploads: 32, UploadMemory: 256 << 20, UploadPerAccountPercent: 100, UploadQueue: 1000, UploadQueueTimeout: runtimetest.Long,
		UploadLease: 15 * time.Minute, ResumableTTL: 24 * time.Hour}
	// PurgeConfig is the configuration of the purge.
	PurgeConfig = media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, UploadGrace: 5 * time.Minute, MaxAttempts: 3, RemovalConfig: media.RemovalConfig{BatchSize: 7, MaxBackoff: time.Hour}}
)

// Replica is the services of one process.
type Replica struct {
	Items   *media.Service
	Uploads *upload.Service
}

// Harness is a database, a bucket and a replica that uses them.
type Harness struct {
	T   *testing.T
	URL string // of the database
	Replica
	Store    *postgres.Store
	Objects  *objectstore.Store
	Registry *account.Registry
	Purger   *media.Purger
	Guard    *installation.Guard
	Clock    *runtimetest.Clock
}

// New returns a harness.
func New(t *testing.T) *Harness {
	t.Helper()
	return NewWith(t, testenv.S3(t))
}

// NewWithOwnS3 returns a harness with an S3 store that the test can stop and start.
func NewWithOwnS3(t *testing.T) (*Harness, *testenv.Restartable[*testenv.S3Store]) {
	t.Helper()
	server := testenv.S3Server(t)
	return NewWith(t, server.Server.Access), server
}

// NewWith returns a harness with this S3 store.
func NewWith(t *testing.T, access testenv.S3Access) *Harness {
	t.Helper()
	objects, err := objectstore.New(runtimetest.ObjectStoreConfig(access))
	must(t, err)
	b := &Harness{T: t, URL: testenv.Postgres(t), Objects: objects, Clock: &runtimetest.Clock{}}
	b.Clock.Freeze()
	b.Store = b.Open()
	b.Registry = account.NewRegistry(b.Store.Accounts, "media", b.Clock.Now)
	b.Replica = b.Another(Config)
	log := slog.New(slog.DiscardHandler)
	b.Guard = installation.NewGuard(installation.Config{CheckInterval: time.Second, HeartbeatInterval: time.Minute}, installation.Deps{Store: b.Store.Installations, Markers: objects, Log: log})
	b.Purger, err = media.NewPurger(PurgeConfig, media.PurgeDeps{Store: b.Store.Items, Tasks: b.Store.Tasks, Objects: objects, Guard: b.Guard, Now: b.Clock.Now, Log: log})
	must(t, err)
	return b
}

// Open connects to the harness's database once more, as another process would, which has a lease.
func (b *Harness) Open() *postgres.Store {
	b.T.Helper()
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: b.URL})
	must(b.T, err)
	b.T.Cleanup(store.Close)
	runtimetest.Lease(b.T, store)
	return store
}

// Another returns another replica, with changed dependencies of its uploads. Its items have the same object store.
func (b *Harness) Another(cfg upload.Config, change ...func(*upload.Deps)) Replica {
	b.T.Helper()
	return b.over(b.Store, cfg, change...)
}

// Over is a change of Another: an object store of the test's own.
func Over(objects media.ObjectStore) func(*upload.Deps) {
	return func(deps *upload.Deps) { deps.Objects = objects }
}

// Replicas returns two replicas that share only the database and the object store.
func (b *Harness) Replicas() []Replica {
	b.T.Helper()
	return []Replica{b.Replica, b.over(b.Open(), Config)}
}

func (b *Harness) over(store *postgres.Store, cfg upload.Config, change ...func(*upload.Deps)) Replica {
	b.T.Helper()
	deps := upload.Deps{Store: store.Uploads, Objects: b.Objects, Settings: settings.NewService(b.Store.Settings), Now: b.Clock.Now, Log: slog.New(slog.DiscardHandler)}
	for _, apply := range change {
		apply(&deps)
	}
	return NewReplica(b.T, cfg, deps, store.Items)
}

// NewReplica returns a replica that uses the dependencies of its uploads for its items, too, except for the store.
func NewReplica(t *testing.T, cfg upload.Config, deps upload.Deps, items media.Store) (r Replica) {
	t.Helper()
	var err error
	r.Items, err = media.New(runtimetest.MediaConfig(), media.Deps{Store: items, Objects: deps.Objects, Now: deps.Now, Log: deps.Log})
	must(t, err)
	deps.Items = r.Items
	r.Uploads, err = upload.New(cfg, deps)
	must(t, err)
	return r
}

// Tenant provisions an account as the operator does.
func (b *Harness) Tenant(maxStorage int64) account.Principal {
	b.T.Helper()
	ctx := b.T.Context()
	a, err := b.Registry.Ensure(ctx, account.Spec{Namespace: "team", Name: "t-" + uuid.NewString(), MaxStorage: maxStorage, MaxUploadSize: 100 << 20})
	must(b.T, err)
	identity, err := b.Store.Installations.Identity(ctx)
	must(b.T, err)
	_, err = b.Objects.Claim(ctx, objectstore.ClaimRequest{Bucket: a.Bucket, Owner: objectstore.Owner{AccountID: a.ID.String(), InstallationID: identity.ID}, Epoch: identity.Epoch})
	must(b.T, err)
	must(b.T, b.Registry.SetBucketOwned(ctx, a.ID, true))
	apps, _, err := b.Registry.OpenApps(ctx, a.ID, nil)
	must(b.T, err)
	token, _, err := b.Registry.IssueKey(ctx, apps[0].ID, 1, 0)
	must(b.T, err)
	p, err := b.Store.Credentials.FindPrincipal(ctx, token.Hash())
	must(b.T, err)
	return p
}

// Upload runs a whole upload.
func (b *Harness) Upload(p account.Principal, data []byte, fields media.Fields) media.Item {
	b.T.Helper()
	item, err := runtimetest.Upload(b.T.Context(), b.Uploads, p, bytes.NewReader(data), fields)
	must(b.T, err)
	return item
}

// Sealed uploads and seals.
func (b *Harness) Sealed(p account.Principal, data []byte, fields media.Fields) media.Item {
	b.T.Helper()
	item, err := b.Items.Seal(b.T.Context(), p, b.Upload(p, data, fields).ID)
	must(b.T, err)
	return item
}

// BytesOf downloads an object of an item.
func (b *Harness) BytesOf(p account.Principal, object media.Object) []byte {
	b.T.Helper()
	body, err := b.Objects.Open(b.T.Context(), p.Account.Bucket, object.Key, 0, -1)
	must(b.T, err)
	defer func() { _ = body.Close() }()
	// A buffer that grows step by step takes longer than all else of a test, with the race detector.
	data := bytes.NewBuffer(make([]byte, 0, object.Bytes+bytes.MinRead))
	_, err = data.ReadFrom(body)
	must(b.T, err)
	return data.Bytes()
}

// Stored returns every media object of a tenant's bucket with its size.
func (b *Harness) Stored(p account.Principal) map[string]int64 {
	b.T.Helper()
	found := map[string]int64{}
	must(b.T, b.Objects.List(b.T.Context(), p.Account.Bucket, "media/", func(s media.ObjectInfo) error {
		found[s.Key] = s.Bytes
		return nil
	}))
	return found
}

// Number returns the result of a query for one number.
func (b *Harness) Number(sql string, args ...any) int64 {
	b.T.Helper()
	var n int64
	must(b.T, testenv.Connections(b.T, b.URL).QueryRow(b.T.Context(), sql, args...).Scan(&n))
	return n
}

// Counts reports an error if a query selects another number than the one that is wanted. What names what is counted.
func (b *Harness) Counts(want int64, what, sql string, args ...any) {
	b.T.Helper()
	if n := b.Number(sql, args...); n != want {
		b.T.Errorf("%d %s, want %d", n, what, want)
	}
}

// Balanced checks that the counters of an account equal a recount of its rows and
// that its bucket holds exactly the objects that the rows name.
func (b *Harness) Balanced(p account.Principal) {
	b.T.Helper()
	id := p.Account.ID
	held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, id)
	recount := b.Number(`SELECT (SELECT coalesce(sum(bytes), 0) FROM stored_item WHERE account_id = $1) + (SELECT coalesce(sum(reserved), 0) FROM upload WHERE account_id = $1)`, id)
	if held != recount {
		b.T.Errorf("the account uses %d bytes, the recount is %d", held, recount)
	}
	totals, err := b.Items.Totals(b.T.Context(), p)
	must(b.T, err)
	if want := b.Number(`SELECT coalesce(sum(bytes), 0)::bigint FROM item WHERE account_id = $1 AND sealed_at IS NOT NULL`, id); totals.Storage != want {
		b.T.Errorf("storage is %d, the recount is %d", totals.Storage, want)
	}
	count, err := b.Items.Count(b.T.Context(), p, media.Filter{})
	must(b.T, err)
	if want := b.Number(`SELECT count(*) FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL`, p.App.ID); count != want {
		b.T.Errorf("count is %d, the recount is %d", count, want)
	}
	for column, recount := range map[string]string{"deleted_items": "count(*)", "deleted_bytes": "coalesce(sum(bytes), 0)"} {
		recorded := b.Number(`SELECT coalesce(sum(`+column+`), 0)::bigint FROM app_total WHERE account_id = $1`, id)
		if want := b.Number(`SELECT `+recount+`::bigint FROM stored_item WHERE account_id = $1 AND deleted_at IS NOT NULL`, id); recorded != want {
			b.T.Errorf("%s is %d, the recount is %d", column, recorded, want)
		}
	}
	named := b.Number(`SELECT count(*) FROM stored_item, jsonb_array_elements(objects) WHERE account_id = $1`, id)
	weight := b.Number(`SELECT coalesce(sum((o ->> 'bytes')::bigint), 0)::bigint FROM stored_item, jsonb_array_elements(objects) AS o WHERE account_id = $1`, id)
	var bytes int64
	stored := b.Stored(p)
	for _, size := range stored {
		bytes += size
	}
	if int64(len(stored)) != named || bytes != weight {
		b.T.Errorf("the bucket holds %d objects of %d bytes, the rows name %d of %d", len(stored), bytes, named, weight)
	}
}

// UndoTenant is tenant with deletes that can be undone for a day.
func (b *Harness) UndoTenant(maxStorage int64, undoFor string) account.Principal {
	b.T.Helper()
	p := b.Tenant(maxStorage)
	b.SetUndo(&p, account.Undo{Window: 24 * time.Hour, For: undoFor})
	return p
}

// SetUndo sets for how long, and for whom, deletes of the account can be undone.
func (b *Harness) SetUndo(p *account.Principal, undo account.Undo) {
	b.T.Helper()
	a, err := b.Registry.Ensure(b.T.Context(), account.Spec{Namespace: p.Account.Namespace, Name: p.Account.Name, MaxStorage: p.Account.MaxStorage, MaxUploadSize: p.Account.MaxUploadSize, Undo: undo})
	must(b.T, err)
	if p.Account.Undo = a.Undo; a.Undo != undo {
		b.T.Fatalf("the account has %+v, want %+v", a.Undo, undo)
	}
}

// RemoveEnded removes the objects of deleted items that were ended for an upload: at once, by the clock of
// the database.
func (b *Harness) RemoveEnded() {
	b.T.Helper()
	b.Clock.Advance(time.Minute)
	must(b.T, check.ErrorOf(b.Purger.Run(b.T.Context())))
}

// DeletedIDs returns the ids of the deleted items, the latest delete first.
func (b *Harness) DeletedIDs(p account.Principal) []uuid.UUID {
	b.T.Helper()
	page, err := b.Items.ListDeleted(b.T.Context(), p, 1, media.MaxLimit)
	must(b.T, err)
	ids := make([]uuid.UUID, 0, len(page.Items))
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	if page.Total != int64(len(ids)) {
		b.T.Errorf("the total is %d, and %d items are listed", page.Total, len(ids))
	}
	return ids
}

var must = check.NoError
