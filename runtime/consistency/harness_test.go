package consistency_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/upload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is an account with its service, whose rows and bucket a test damages.
type fixture struct {
	*runtimetest.Env
	t       *testing.T
	store   *postgres.Store
	objects *objectstore.Store
	mediatest.Replica
	clock     *runtimetest.Clock
	raw       *minio.Core
	principal account.Principal
}

// onEveryStore runs a test on every S3 store.
func onEveryStore(t *testing.T, test func(t *testing.T, d *fixture)) {
	t.Helper()
	for name, open := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, open(t)))
		})
	}
}

func newFixture(t *testing.T, access testenv.S3Access) *fixture {
	t.Helper()
	world := runtimetest.NewWith(t, testenv.Postgres(t), access)
	raw, err := minio.NewCore(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{
		Region: access.Region, Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")})
	must(t, err)
	return (&fixture{Env: world, store: world.Store, objects: world.Objects, raw: raw}).withAccount(t)
}

// withAccount returns a fixture of another account on the same stores.
func (d *fixture) withAccount(t *testing.T) *fixture {
	t.Helper()
	other := *d
	other.t, other.clock = t, &runtimetest.Clock{}
	tenant := d.Tenant(t, account.Spec{Name: "t-" + uuid.NewString(), MaxStorage: 1 << 30, MaxUploadSize: 100 << 20})
	other.principal = d.Principal(t, tenant)
	other.Replica = other.newReplica(other.clock.Now)
	return &other
}

func (d *fixture) newReplica(now func() time.Time) mediatest.Replica {
	d.t.Helper()
	return mediatest.NewReplica(d.t, mediatest.Config, upload.Deps{Store: d.store.Uploads, Objects: d.objects, Settings: d.Settings, Now: now, Log: slog.New(slog.DiscardHandler)}, d.store.Items)
}

// What runs a whole upload, deletes an item with an API key, and makes a file.
var (
	uploadFile = runtimetest.Upload
	deleteItem = runtimetest.DeleteItem
	random     = runtimetest.Noise
)

func (d *fixture) draft(data []byte, fields media.Fields) media.Item {
	d.t.Helper()
	item, err := uploadFile(d.t.Context(), d.Uploads, d.principal, bytes.NewReader(data), fields)
	must(d.t, err)
	return item
}

func (d *fixture) sealed(data []byte, fields media.Fields) media.Item {
	d.t.Helper()
	item, err := d.Items.Seal(d.t.Context(), d.principal, d.draft(data, fields).ID)
	must(d.t, err)
	return item
}

// bytesOf downloads an object.
func (d *fixture) bytesOf(object media.Object) []byte {
	d.t.Helper()
	body, err := d.objects.Open(d.t.Context(), d.principal.Account.Bucket, object.Key, 0, -1)
	must(d.t, err)
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	must(d.t, err)
	return data
}

// stored returns the size of every media object in the bucket.
func (d *fixture) stored() map[string]int64 {
	d.t.Helper()
	found := map[string]int64{}
	must(d.t, d.objects.List(d.t.Context(), d.principal.Account.Bucket, "media/", func(o media.ObjectInfo) error {
		found[o.Key] = o.Bytes
		return nil
	}))
	return found
}

func (d *fixture) put(key string, data []byte) {
	d.t.Helper()
	_, err := d.raw.Client.PutObject(d.t.Context(), d.principal.Account.Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{DisableContentSha256: true})
	must(d.t, err)
}

func (d *fixture) remove(key string) {
	d.t.Helper()
	must(d.t, d.raw.RemoveObject(d.t.Context(), d.principal.Account.Bucket, key, minio.RemoveObjectOptions{}))
}

// removeQueued carries out the removals that are queued, as the purge does.
func (d *fixture) removeQueued() {
	d.t.Helper()
	later := time.Now().Add(2 * time.Hour)
	due, err := d.store.Items.DueRemovals(d.t.Context(), d.principal.Account.ID, later, 100)
	must(d.t, err)
	for _, removal := range due {
		for _, key := range removal.Keys {
			d.remove(key)
		}
	}
}

// startMultipart initiates a multipart upload with one part.
func (d *fixture) startMultipart(key string) {
	d.t.Helper()
	id, err := d.raw.NewMultipartUpload(d.t.Context(), d.principal.Account.Bucket, key, minio.PutObjectOptions{})
	must(d.t, err)
	_, err = d.raw.PutObjectPart(d.t.Context(), d.principal.Account.Bucket, key, id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{DisableContentSha256: true})
	must(d.t, err)
}

// sql changes rows; it fails if it changes none.
func (d *fixture) sql(sql string, args ...any) {
	d.t.Helper()
	tag, err := testenv.Connections(d.t, d.Database.DatabaseURL).Exec(d.t.Context(), sql, args...)
	must(d.t, err)
	if tag.RowsAffected() == 0 {
		d.t.Fatalf("no row was changed: %s", sql)
	}
}

// withThumbnail adds a derivative to a sealed item, as an image upload does.
func (d *fixture) withThumbnail(item media.Item, data []byte) media.Object {
	d.t.Helper()
	sum := sha256.Sum256(data)
	object := media.Object{Variant: media.Thumbnail, Key: media.ObjectKey(item.ID, media.Thumbnail), Bytes: int64(len(data)), MimeType: "image/webp", SHA256: sum[:]}
	d.put(object.Key, data)
	d.sql(`UPDATE item SET objects = objects || jsonb_build_object('variant', 'thumbnail', 'key', $2::text, 'bytes', $3::bigint, 'mimeType', 'image/webp', 'sha256', $4::text), bytes = bytes + $3 WHERE id = $1`,
		item.ID, object.Key, object.Bytes, hex.EncodeToString(sum[:]))
	d.sql(`UPDATE account_usage SET bytes = bytes + $2 WHERE account_id = $1`, item.AccountID, object.Bytes)
	d.sql(`UPDATE app_total SET bytes = bytes + $2 WHERE app_id = $1 AND slot = 3`, item.AppID, object.Bytes)
	return object
}

// withRendition makes a rendition of 300 bytes, up to its end if it is finished, and returns the key of its object.
func (d *fixture) withRendition(item media.Item, finished bool) (key string) {
	d.t.Helper()
	claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: sha256.Sum256([]byte(uuid.NewString()))}, AccountID: item.AccountID, Preset: "a", Lease: time.Hour}
	claimed, err := d.store.Pictures.ClaimRendition(d.t.Context(), claim)
	must(d.t, err)
	reserved, err := d.store.Pictures.ReserveRendition(d.t.Context(), claim, 300)
	must(d.t, err)
	if !claimed || !reserved {
		d.t.Fatal(claimed, reserved)
	}
	key = rendition.ObjectKey(item.ID, claim.ID)
	d.put(key, random(300))
	if finished {
		sum := sha256.Sum256(random(300))
		must(d.t, d.store.Pictures.FinishRendition(d.t.Context(), claim, rendition.Result{Object: media.Object{MimeType: "image/webp", SHA256: sum[:]}, Width: 1, Height: 1}))
	}
	return key
}

func (d *fixture) check(cfg consistency.Config) (consistency.Summary, []consistency.Finding) {
	d.t.Helper()
	guard := d.Guard()
	must(d.t, guard.Check(d.t.Context()))
	checker, err := consistency.NewChecker(d.store.Consistency, d.objects, guard, cfg, d.clock.Now, slog.New(slog.DiscardHandler))
	must(d.t, err)
	var summary consistency.Summary
	var findings []consistency.Finding
	must(d.t, checker.Check(d.t.Context(), d.principal.Account, &summary, func(f consistency.Finding) error {
		findings = append(findings, f)
		return nil
	}))
	return summary, findings
}

// kinds returns the kinds of findings, sorted.
func kinds(findings []consistency.Finding) []string {
	var names []string
	for _, f := range findings {
		names = append(names, string(f.Kind))
	}
	slices.Sort(names)
	return names
}

// balanced checks that the counters of the account equal a recount of its rows and that its
// bucket holds exactly the objects of the rows. It asks the database, not the Checker.
func (d *fixture) balanced() {
	d.t.Helper()
	accountID, appID := d.principal.Account.ID, d.principal.App.ID
	for name, query := range map[string]string{
		"account_usage": `SELECT (SELECT coalesce(sum(bytes), 0) FROM stored_item WHERE account_id = $1) + (SELECT coalesce(sum(reserved), 0) FROM upload WHERE account_id = $1)
			+ (SELECT coalesce(sum(bytes), 0) FROM rendition WHERE account_id = $1) - (SELECT bytes FROM account_usage WHERE account_id = $1)`,
		"storage": `SELECT (SELECT coalesce(sum(bytes), 0) FROM item WHERE account_id = $1 AND sealed_at IS NOT NULL) - (SELECT coalesce(sum(bytes), 0) FROM app_total WHERE account_id = $1)`,
	} {
		if n := d.QueryInt(d.t, query, accountID); n != 0 {
			d.t.Errorf("%s differs from a recount by %d", name, n)
		}
	}
	count, err := d.Items.Count(d.t.Context(), d.principal, media.Filter{})
	must(d.t, err)
	if want := d.QueryInt(d.t, `SELECT count(*) FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL`, appID); count != want {
		d.t.Errorf("the count is %d, a recount yields %d", count, want)
	}
	objects := d.QueryInt(d.t, `SELECT (SELECT count(*) FROM stored_item, jsonb_array_elements(objects) WHERE account_id = $1) + (SELECT count(*) FROM rendition WHERE account_id = $1 AND bytes > 0)`, accountID)
	size := d.QueryInt(d.t, `SELECT (SELECT coalesce(sum((o ->> 'bytes')::bigint), 0) FROM stored_item, jsonb_array_elements(objects) AS o WHERE account_id = $1)::bigint
		+ (SELECT coalesce(sum(bytes), 0) FROM rendition WHERE account_id = $1)::bigint`, accountID)
	stored := d.stored()
	for _, n := range stored {
		size -= n
	}
	if int64(len(stored)) != objects || size != 0 {
		d.t.Errorf("the bucket holds %d objects, the rows refer to %d; their sizes differ by %d bytes", len(stored), objects, size)
	}
}

var must = check.NoError
