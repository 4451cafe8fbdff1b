package media_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
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
)

// discard is a log that no test reads.
var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { testenv.Main(m) }

// clock is a clock that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// harness is a database, a bucket and a media service that uses them.
type harness struct {
	t        *testing.T
	url      string
	store    *postgres.Store
	objects  *objectstore.Store
	registry *account.Registry
	service  *media.Service
	purger   *media.Purger
	guard    *installation.Guard
	clock    *clock
}

var (
	config = media.Config{MaxUploads: 32, UploadMemory: 256 << 20, UploadPerAccountPercent: 100, UploadQueue: 1000, UploadQueueTimeout: runtimetest.Long,
		UploadLease: 15 * time.Minute, ResumableTTL: 24 * time.Hour, DeleteTimeout: runtimetest.Long}
	purgeConfig = media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, UploadGrace: 5 * time.Minute, MaxAttempts: 3, RemovalConfig: media.RemovalConfig{BatchSize: 7, MaxBackoff: time.Hour}}
)

func setup(t *testing.T) *harness {
	t.Helper()
	access := testenv.S3(t)
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	return setupWith(t, testenv.Postgres(t), objects)
}

// setupOwnS3 is setup with an S3 store that the test can stop and start.
func setupOwnS3(t *testing.T) (*harness, *testenv.Restartable[*testenv.S3Store]) {
	t.Helper()
	server := testenv.S3Server(t)
	a := server.Server.Access
	objects, err := objectstore.New(objectstore.Config{Endpoint: a.Endpoint, Region: a.Region, AccessKey: a.AccessKey, SecretKey: a.SecretKey})
	must(t, err)
	return setupWith(t, testenv.Postgres(t), objects), server
}

func setupWith(t *testing.T, url string, objects *objectstore.Store) *harness {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := &harness{t: t, url: url, objects: objects, clock: &clock{now: time.Now().Truncate(time.Microsecond)}}
	b.store = b.open()
	b.registry = account.NewRegistry(b.store.Accounts, "media", b.clock.Now)
	b.service = b.replica(config)
	b.guard = installation.NewGuard(installation.Config{CheckInterval: time.Second, HeartbeatInterval: time.Minute}, installation.Deps{Store: b.store.Installations, Markers: objects, Log: log})
	var err error
	b.purger, err = media.NewPurger(purgeConfig, media.PurgeDeps{Store: b.store.Items, Tasks: b.store.Tasks, Objects: objects, Guard: b.guard, Now: b.clock.Now, Log: log})
	must(t, err)
	return b
}

// open connects to the harness's database once more, as another process would.
func (b *harness) open() *postgres.Store {
	b.t.Helper()
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: b.url})
	must(b.t, err)
	b.t.Cleanup(store.Close)
	return store
}

func (b *harness) replica(cfg media.Config) *media.Service {
	b.t.Helper()
	return b.replicaOver(b.objects, cfg)
}

// replicaOver is a replica with an object store of the test's own.
func (b *harness) replicaOver(objects media.ObjectStore, cfg media.Config) *media.Service {
	b.t.Helper()
	return b.replicaWith(b.store.Items, objects, cfg)
}

// replicaWith is a replica with a database of the test's own, too.
func (b *harness) replicaWith(store media.Store, objects media.ObjectStore, cfg media.Config) *media.Service {
	b.t.Helper()
	service, err := media.New(cfg, media.Deps{Store: store, Objects: objects, Settings: settings.NewService(b.store.Settings),
		Now: b.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(b.t, err)
	return service
}

// tenant provisions an account as the operator does.
func (b *harness) tenant(maxStorage int64) account.Principal {
	b.t.Helper()
	ctx := b.t.Context()
	a, err := b.registry.Ensure(ctx, account.Spec{Namespace: "team", Name: "t-" + uuid.NewString(), MaxStorage: maxStorage, MaxUploadSize: 100 << 20})
	must(b.t, err)
	identity, err := b.store.Installations.Identity(ctx)
	must(b.t, err)
	_, err = b.objects.Claim(ctx, objectstore.ClaimRequest{Bucket: a.Bucket, Owner: objectstore.Owner{AccountID: a.ID.String(), InstallationID: identity.ID}, Epoch: identity.Epoch})
	must(b.t, err)
	must(b.t, b.registry.SetBucketOwned(ctx, a.ID, true))
	apps, _, err := b.registry.OpenApps(ctx, a.ID, nil)
	must(b.t, err)
	token, _, err := b.registry.IssueKey(ctx, apps[0].ID, 1, 0)
	must(b.t, err)
	p, err := b.store.Credentials.FindPrincipal(ctx, token.Hash())
	must(b.t, err)
	return p
}

// What runs a whole upload, deletes an item with an API key, and makes a file.
var (
	upload     = runtimetest.Upload
	deleteItem = runtimetest.DeleteItem
	random     = runtimetest.Noise
)

func (b *harness) upload(p account.Principal, data []byte, fields media.Fields) media.Item {
	b.t.Helper()
	item, err := upload(b.t.Context(), b.service, p, bytes.NewReader(data), fields)
	must(b.t, err)
	return item
}

// sealed uploads and seals.
func (b *harness) sealed(p account.Principal, data []byte, fields media.Fields) media.Item {
	b.t.Helper()
	item, err := b.service.Seal(b.t.Context(), p, b.upload(p, data, fields).ID)
	must(b.t, err)
	return item
}

// bytesOf downloads an object of an item.
func (b *harness) bytesOf(p account.Principal, object media.Object) []byte {
	b.t.Helper()
	body, err := b.objects.Open(b.t.Context(), p.Account.Bucket, object.Key, 0, -1)
	must(b.t, err)
	defer func() { _ = body.Close() }()
	// A buffer that grows step by step takes longer than all else of a test, with the race detector.
	data := bytes.NewBuffer(make([]byte, 0, object.Bytes+bytes.MinRead))
	_, err = data.ReadFrom(body)
	must(b.t, err)
	return data.Bytes()
}

// stored returns every media object of a tenant's bucket with its size.
func (b *harness) stored(p account.Principal) map[string]int64 {
	b.t.Helper()
	found := map[string]int64{}
	must(b.t, b.objects.List(b.t.Context(), p.Account.Bucket, "media/", func(s media.ObjectInfo) error {
		found[s.Key] = s.Bytes
		return nil
	}))
	return found
}

// number returns the result of a query for one number.
func (b *harness) number(sql string, args ...any) int64 {
	b.t.Helper()
	var n int64
	must(b.t, testenv.Connections(b.t, b.url).QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// counts reports an error if a query selects another number than the one that is wanted. What names what is counted.
func (b *harness) counts(want int64, what, sql string, args ...any) {
	b.t.Helper()
	if n := b.number(sql, args...); n != want {
		b.t.Errorf("%d %s, want %d", n, what, want)
	}
}

// balanced checks that the counters of an account equal a recount of its rows and
// that its bucket holds exactly the objects that the rows name.
func (b *harness) balanced(p account.Principal) {
	b.t.Helper()
	id := p.Account.ID
	held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, id)
	recount := b.number(`SELECT (SELECT coalesce(sum(bytes), 0) FROM stored_item WHERE account_id = $1) + (SELECT coalesce(sum(reserved), 0) FROM upload WHERE account_id = $1)`, id)
	if held != recount {
		b.t.Errorf("the account uses %d bytes, the recount is %d", held, recount)
	}
	totals, err := b.service.Totals(b.t.Context(), p)
	must(b.t, err)
	if want := b.number(`SELECT coalesce(sum(bytes), 0)::bigint FROM item WHERE account_id = $1 AND sealed_at IS NOT NULL`, id); totals.Storage != want {
		b.t.Errorf("storage is %d, the recount is %d", totals.Storage, want)
	}
	count, err := b.service.Count(b.t.Context(), p, media.Filter{})
	must(b.t, err)
	if want := b.number(`SELECT count(*) FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL`, p.App.ID); count != want {
		b.t.Errorf("count is %d, the recount is %d", count, want)
	}
	for column, recount := range map[string]string{"deleted_items": "count(*)", "deleted_bytes": "coalesce(sum(bytes), 0)"} {
		recorded := b.number(`SELECT coalesce(sum(`+column+`), 0)::bigint FROM app_total WHERE account_id = $1`, id)
		if want := b.number(`SELECT `+recount+`::bigint FROM stored_item WHERE account_id = $1 AND deleted_at IS NOT NULL`, id); recorded != want {
			b.t.Errorf("%s is %d, the recount is %d", column, recorded, want)
		}
	}
	named := b.number(`SELECT count(*) FROM stored_item, jsonb_array_elements(objects) WHERE account_id = $1`, id)
	weight := b.number(`SELECT coalesce(sum((o ->> 'bytes')::bigint), 0)::bigint FROM stored_item, jsonb_array_elements(objects) AS o WHERE account_id = $1`, id)
	var bytes int64
	stored := b.stored(p)
	for _, size := range stored {
		bytes += size
	}
	if int64(len(stored)) != named || bytes != weight {
		b.t.Errorf("the bucket holds %d objects of %d bytes, the rows name %d of %d", len(stored), bytes, named, weight)
	}
}

var must = check.NoError

// create creates a resumable upload.
func (b *harness) create(p account.Principal, length int64) *media.Resumable {
	b.t.Helper()
	r, err := b.service.CreateResumable(b.t.Context(), p, length, media.Fields{FileName: "a.bin"}, "")
	must(b.t, err)
	return r
}

// resume loads the upload, as the next request does, at any replica.
func (b *harness) resume(service *media.Service, p account.Principal, r *media.Resumable) *media.Resumable {
	b.t.Helper()
	again, err := service.FindResumable(b.t.Context(), p, r.State().ItemID)
	must(b.t, err)
	must(b.t, again.FinishReceived(b.t.Context()))
	return again
}

// settled checks that an upload became an item with the content file, and left nothing else.
func (b *harness) settled(p account.Principal, r *media.Resumable, file []byte) {
	b.t.Helper()
	item := r.State().Item
	if item == nil {
		b.t.Fatalf("the upload is not committed: %+v", r.State())
	}
	original := item.File()
	sum := sha256.Sum256(file)
	if got := b.bytesOf(p, original); !bytes.Equal(got, file) || !bytes.Equal(original.SHA256, sum[:]) || original.Bytes != int64(len(file)) {
		b.t.Errorf("the item has %d bytes, want %d", len(got), len(file))
	}
	b.clock.advance(2 * time.Minute)
	must(b.t, check.ErrorOf(b.purger.Run(b.t.Context())))
	b.balanced(p)
	b.nothingIncomplete(p)
}

func (b *harness) nothingIncomplete(p account.Principal) {
	b.t.Helper()
	must(b.t, b.objects.ListIncomplete(b.t.Context(), p.Account.Bucket, "", func(u media.IncompleteUpload) error {
		b.t.Errorf("an incomplete upload of %s is left", u.Key)
		return nil
	}))
}
