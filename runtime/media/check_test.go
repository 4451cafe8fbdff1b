package media_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/settings"
)

// damaged is a bundle whose rows and bucket a test spoils behind the service's back.
type damaged struct {
	*bundle
	p   account.Principal
	raw *minio.Core
}

// onBothStores runs a test on versitygw and on MinIO.
func onBothStores(t *testing.T, test func(t *testing.T, d *damaged)) {
	t.Helper()
	for name, open := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, spoilable(t, open(t)))
		})
	}
}

func spoilable(t *testing.T, access servers.S3Access) *damaged {
	t.Helper()
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	raw, err := minio.NewCore(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{
		Region: access.Region, Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")})
	must(t, err)
	b := setupWith(t, testenv.Postgres(t), objects)
	return &damaged{bundle: b, p: b.tenant(1 << 30), raw: raw}
}

func (d *damaged) put(key string, data []byte) {
	d.t.Helper()
	_, err := d.raw.Client.PutObject(d.t.Context(), d.p.Account.Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{DisableContentSha256: true})
	must(d.t, err)
}

func (d *damaged) lose(key string) {
	d.t.Helper()
	must(d.t, d.raw.RemoveObject(d.t.Context(), d.p.Account.Bucket, key, minio.RemoveObjectOptions{}))
}

func (d *damaged) begin(key string) {
	d.t.Helper()
	id, err := d.raw.NewMultipartUpload(d.t.Context(), d.p.Account.Bucket, key, minio.PutObjectOptions{})
	must(d.t, err)
	_, err = d.raw.PutObjectPart(d.t.Context(), d.p.Account.Bucket, key, id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{DisableContentSha256: true})
	must(d.t, err)
}

func (d *damaged) sql(sql string, args ...any) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.url)
	must(d.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tag, err := conn.Exec(d.t.Context(), sql, args...)
	must(d.t, err)
	if tag.RowsAffected() == 0 {
		d.t.Fatalf("nothing was spoilt: %s", sql)
	}
}

// withThumbnail returns a sealed item a derivative, as an upload with images does.
func (d *damaged) withThumbnail(item media.Item, data []byte) media.Object {
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

// check runs one check; findings come as "kind key" or "kind item", sorted.
func (d *damaged) check(cfg media.CheckConfig) (media.CheckSummary, []media.Finding) {
	d.t.Helper()
	checker, err := media.NewChecker(d.store, d.objects, cfg, d.clock.Now, slog.New(slog.DiscardHandler))
	must(d.t, err)
	var summary media.CheckSummary
	var findings []media.Finding
	must(d.t, checker.Check(d.t.Context(), d.p.Account, &summary, func(f media.Finding) error {
		findings = append(findings, f)
		return nil
	}))
	return summary, findings
}

func kinds(findings []media.Finding) []string {
	var names []string
	for _, f := range findings {
		names = append(names, string(f.Kind))
	}
	slices.Sort(names)
	return names
}

func TestACheckFindsNothingWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		d.upload(d.p, random(10), media.Fields{})
		d.upload(d.p, nil, media.Fields{})
		d.sealed(d.p, random(media.PartSize+5), media.Fields{Group: "g", Access: media.Public})
		d.withThumbnail(d.sealed(d.p, random(30), media.Fields{}), random(7))
		// An upload in the middle of its parts, as another replica may run it.
		u, err := d.service.Begin(t.Context(), d.p, 0)
		must(t, err)
		reader, writer := io.Pipe()
		received := make(chan error, 1)
		go func() { received <- u.Receive(t.Context(), reader, "") }()
		_, err = writer.Write(make([]byte, 2*media.PartSize+10))
		must(t, err)
		// One that died after its bytes, and one removal that was not carried out yet.
		died, deleted := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
		d.put(media.ObjectKey(died, media.WebP), random(3))
		d.begin(media.ObjectKey(died, media.Original))
		d.sql(`INSERT INTO upload (item_id, account_id, app_id, lease_ends) VALUES ($1, $2, $3, now() - interval '1 year')`, died, d.p.Account.ID, d.p.App.ID)
		d.put(media.ObjectKey(deleted, media.Original), random(3))
		d.begin(media.ObjectKey(deleted, media.Original))
		d.sql(`INSERT INTO object_removal (account_id, bucket, keys, abort_multipart) VALUES ($1, $2, ARRAY[$3], true)`, d.p.Account.ID, d.p.Account.Bucket, media.ObjectKey(deleted, media.Original))
		for _, repair := range []bool{false, true} {
			summary, findings := d.check(media.CheckConfig{Repair: repair, Deep: true})
			if len(findings) > 0 || summary.Items != 4 || summary.Objects != 7 || summary.Uploads != 2 || summary.Removals != 1 {
				t.Errorf("repair %v: %+v, %+v", repair, summary, findings)
			}
		}
		must(t, writer.Close())
		must(t, <-received)
		item, err := u.Commit(t.Context(), media.Fields{})
		must(t, err)
		u.Close(t.Context())
		if summary, findings := d.check(media.CheckConfig{Deep: true}); len(findings) > 0 || summary.Items != 5 || item.Objects.Bytes() != 2*media.PartSize+10 {
			t.Errorf("afterwards: %+v, %+v", summary, findings)
		}
	})
}

// Every way of being wrong: it is found, it is mended or left to a person, and a
// second repair finds nothing that the first one could mend.
func TestEveryFindingIsReportedAndMended(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		free := uuid.Must(uuid.NewV7())
		for _, c := range []struct {
			name  string
			spoil func(t *testing.T, d *damaged, item media.Item, thumbnail media.Object)
			want  []string
			// person is how many findings a repair leaves.
			person int64
			deep   bool
		}{
			{name: "nothing", spoil: func(*testing.T, *damaged, media.Item, media.Object) {}},
			{name: "an object of no item", want: []string{"object-without-row"}, spoil: func(_ *testing.T, d *damaged, _ media.Item, _ media.Object) {
				d.put(media.ObjectKey(free, media.Original), random(9))
			}},
			{name: "an object that its item does not name", want: []string{"object-without-row"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.put(media.ObjectKey(item.ID, media.WebP), random(9))
			}},
			{name: "an unfinished upload of no item", want: []string{"unfinished-upload"}, spoil: func(_ *testing.T, d *damaged, _ media.Item, _ media.Object) {
				d.begin(media.ObjectKey(free, media.Original))
				d.begin(media.ObjectKey(free, media.Original))
			}},
			{name: "an unfinished upload of an item that is complete", want: []string{"unfinished-upload"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.begin(item.File().Key)
			}},
			{name: "a lost thumbnail", want: []string{"object-missing"}, spoil: func(_ *testing.T, d *damaged, _ media.Item, thumbnail media.Object) {
				d.lose(thumbnail.Key)
			}},
			{name: "a thumbnail of the wrong size", want: []string{"object-size"}, spoil: func(_ *testing.T, d *damaged, _ media.Item, thumbnail media.Object) {
				d.put(thumbnail.Key, random(99))
			}},
			{name: "a thumbnail of the wrong bytes", want: []string{"object-hash"}, deep: true, spoil: func(_ *testing.T, d *damaged, _ media.Item, thumbnail media.Object) {
				d.put(thumbnail.Key, make([]byte, thumbnail.Bytes))
			}},
			{name: "wrong bytes that only a deep check sees", spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.put(item.File().Key, make([]byte, item.File().Bytes))
			}},
			{name: "a lost original", want: []string{"object-missing"}, person: 1, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.lose(item.File().Key)
			}},
			{name: "an original of the wrong size", want: []string{"object-size"}, person: 1, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.put(item.File().Key, random(1))
			}},
			{name: "an original of the wrong bytes", want: []string{"object-hash"}, person: 1, deep: true, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.put(item.File().Key, make([]byte, item.File().Bytes))
			}},
			{name: "a total that is too small", want: []string{"counter"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`UPDATE app_total SET private_items = private_items - 3, bytes = bytes - 100 WHERE app_id = $1 AND slot = 5`, item.AppID)
			}},
			{name: "totals that are gone", want: []string{"counter", "counter"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`DELETE FROM app_total WHERE app_id = $1`, item.AppID)
				d.sql(`DELETE FROM group_total WHERE app_id = $1`, item.AppID)
			}},
			{name: "a group that nobody is in", want: []string{"counter"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO group_total (app_id, group_label, slot, public_items) VALUES ($1, 'ghosts', 2, 4)`, item.AppID)
			}},
			{name: "a wrong index of pages", want: []string{"counter"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO item_page_delta (app_id, id, delta, public) VALUES ($1, $2, 5, true)`, item.AppID, item.ID)
			}},
			{name: "a block that nothing is in", want: []string{"counter"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`INSERT INTO item_page_block (app_id, first_id, items, public_items) VALUES ($1, 'ffffffff-ffff-ffff-ffff-000000000000', 3, 1)`, item.AppID)
			}},
			{name: "a hold that is too large", want: []string{"counter"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`UPDATE account_usage SET bytes = bytes + 1000 WHERE account_id = $1`, item.AccountID)
			}},
			{name: "a hold that is too small, and a lost thumbnail", want: []string{"counter", "object-missing"}, spoil: func(_ *testing.T, d *damaged, item media.Item, thumbnail media.Object) {
				d.sql(`UPDATE account_usage SET bytes = 0 WHERE account_id = $1`, item.AccountID)
				d.lose(thumbnail.Key)
			}},
			{name: "an item of the wrong bytes", want: []string{"counter", "counter", "item-bytes"}, spoil: func(_ *testing.T, d *damaged, item media.Item, _ media.Object) {
				d.sql(`UPDATE item SET bytes = bytes + 5000 WHERE id = $1`, item.ID)
			}},
		} {
			d := &damaged{bundle: &bundle{t: t, url: d.url, store: d.store, objects: d.objects, registry: d.registry, service: d.service, purger: d.purger,
				clock: &clock{now: time.Now().Add(2 * time.Hour)}}, raw: d.raw}
			d.p = d.tenant(1 << 30)
			item := d.sealed(d.p, random(500), media.Fields{Group: "g"})
			thumbnail := d.withThumbnail(item, random(70))
			neighbour := d.upload(d.p, random(40), media.Fields{})
			c.spoil(t, d, item, thumbnail)
			cfg := media.CheckConfig{Deep: c.deep, Grace: time.Hour}
			summary, findings := d.check(cfg)
			if got := kinds(findings); !slices.Equal(got, c.want) || summary.NeedsAttention != int64(len(c.want)) || summary.Repaired != 0 {
				t.Errorf("%s: found %v, want %v; %+v", c.name, got, c.want, findings)
			}
			cfg.Repair = true
			summary, findings = d.check(cfg)
			// Mending an item's bytes mends a counter that was wrong only against it.
			if got := kinds(findings); c.name != "an item of the wrong bytes" && !slices.Equal(got, c.want) || summary.NeedsAttention != c.person {
				t.Errorf("%s: a repair found %v and left %d, want %v and %d", c.name, got, summary.NeedsAttention, c.want, c.person)
			}
			summary, findings = d.check(cfg)
			if summary.Repaired != 0 || summary.NeedsAttention != c.person {
				t.Errorf("%s: a second repair found %+v", c.name, findings)
			}
			if c.person == 0 {
				d.balanced(d.p)
			}
			for _, id := range []uuid.UUID{item.ID, neighbour.ID} {
				if _, err := d.service.Get(t.Context(), d.p, id); err != nil {
					t.Errorf("%s: an item is gone: %v", c.name, err)
				}
			}
			must(t, d.service.Delete(t.Context(), d.p, item.ID))
			if c.person == 0 {
				d.balanced(d.p)
			}
		}
	})
}

func TestAYoungObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		key := media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)
		d.put(key, random(9))
		d.begin(key)
		d.clock.advance(30 * time.Minute)
		summary, findings := d.check(media.CheckConfig{Repair: true, Grace: time.Hour})
		if summary.Recent != 2 || summary.NeedsAttention != 0 || summary.Repaired != 0 || len(findings) != 2 || !findings[0].Recent {
			t.Errorf("a young object: %+v %+v", summary, findings)
		}
		if _, ok := d.stored(d.p)[key]; !ok {
			t.Error("a young object was removed")
		}
		d.clock.advance(time.Hour)
		if summary, _ := d.check(media.CheckConfig{Repair: true, Grace: time.Hour}); summary.Repaired != 2 || len(d.stored(d.p)) != 0 {
			t.Errorf("later: %+v", summary)
		}
	})
}

// An adopted bucket can hold anything; what the service did not make it does not remove.
func TestObjectsThatTheServiceNeverMakesAreLeftAlone(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		id := uuid.Must(uuid.NewV7())
		keys := []string{"a", "zebra/x", "media/photo.jpg", "media/" + strings.ToUpper(id.String()) + "x/original", "media/" + id.String() + "/a/b", "media/2020/original"}
		for _, key := range keys {
			d.put(key, random(3))
		}
		d.sealed(d.p, random(10), media.Fields{})
		d.clock.advance(24 * time.Hour)
		summary, findings := d.check(media.CheckConfig{Repair: true})
		if len(findings) != 0 || summary.Foreign != int64(len(keys)) || summary.Objects != 1 {
			t.Errorf("%+v %+v", summary, findings)
		}
		for _, key := range keys {
			if _, err := d.objects.Stat(t.Context(), d.p.Account.Bucket, key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

func TestNothingIsMendedInABucketThatIsNotTheAccountsOwn(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		item := d.sealed(d.p, random(10), media.Fields{})
		thumbnail := d.withThumbnail(item, random(5))
		stray := media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)
		d.put(stray, random(3))
		d.lose(thumbnail.Key)
		d.clock.advance(24 * time.Hour)
		before := maps.Clone(d.stored(d.p))

		d.lose(objectstore.MarkerKey)
		_, findings := d.check(media.CheckConfig{Repair: true})
		if got := kinds(findings); !slices.Equal(got, []string{"bucket-unmarked", "object-missing", "object-without-row"}) {
			t.Errorf("without a marker: %v", got)
		}
		d.put(objectstore.MarkerKey, []byte(`{"accountID":"`+uuid.NewString()+`"}`))
		summary, findings := d.check(media.CheckConfig{Repair: true})
		if got := kinds(findings); !slices.Equal(got, []string{"bucket-foreign"}) || summary.Objects != 0 {
			t.Errorf("with another's marker: %v, %+v", got, summary)
		}
		d.put(objectstore.MarkerKey, []byte(`broken`))
		if _, findings := d.check(media.CheckConfig{Repair: true}); !slices.Equal(kinds(findings), []string{"bucket-foreign"}) {
			t.Errorf("with a broken marker: %v", kinds(findings))
		}
		if after := d.stored(d.p); !maps.Equal(before, after) {
			t.Errorf("the bucket was changed: %v, %v", before, after)
		}
		if got, err := d.service.Get(t.Context(), d.p, item.ID); err != nil || len(got.Objects) != 2 {
			t.Errorf("the row was changed: %+v, %v", got, err)
		}
		for key := range before {
			d.lose(key)
		}
		d.lose(objectstore.MarkerKey)
		must(t, d.raw.RemoveBucket(t.Context(), d.p.Account.Bucket))
		if _, findings := d.check(media.CheckConfig{Repair: true}); !slices.Equal(kinds(findings), []string{"bucket-missing"}) {
			t.Errorf("without a bucket: %v", kinds(findings))
		}
	})
}

// Many pages of rows, many pages of objects, and holes in both.
func TestALargeAccountIsComparedPageByPage(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		const items = 2600
		bucket := d.p.Account.Bucket
		d.sql(`WITH made AS (
			INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at)
			SELECT id, $1, $2, 'f', 'public', '', 'g' || n % 7,
				jsonb_build_array(jsonb_build_object('variant', 'original', 'key', 'media/' || id || '/original', 'bytes', 1, 'mimeType', 'text/plain', 'sha256', '')), 1, now(), now()
			FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $3::int) AS n) AS ids RETURNING 1)
			UPDATE account_usage SET bytes = bytes + $3 WHERE account_id = $1`, d.p.Account.ID, d.p.App.ID, items)
		if summary, _ := d.check(media.CheckConfig{Repair: true}); summary.Found["counter"] != 9 || summary.Found["object-missing"] != items {
			t.Errorf("an empty bucket: %+v", summary)
		}
		conn, err := pgx.Connect(t.Context(), d.url)
		must(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		rows, err := conn.Query(t.Context(), `SELECT id FROM item WHERE account_id = $1 ORDER BY id`, d.p.Account.ID)
		must(t, err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		must(t, err)
		work := make(chan string)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for key := range work {
					if _, err := d.raw.Client.PutObject(t.Context(), bucket, key, strings.NewReader("x"), 1, minio.PutObjectOptions{DisableContentSha256: true}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		lost, strays := 0, 0
		for i, id := range ids {
			switch {
			case i%100 == 50, i == len(ids)-1, i == 0:
				lost++
				continue
			case i%130 == 7:
				strays++
				work <- media.ObjectKey(uuid.New(), media.Original)
			}
			work <- media.ObjectKey(id, media.Original)
		}
		close(work)
		all.Wait()
		summary, _ := d.check(media.CheckConfig{})
		if summary.Items != items || summary.Objects != int64(items-lost+strays) || summary.Found["object-missing"] != int64(lost) || summary.Found["object-without-row"] != int64(strays) {
			t.Errorf("%d lost, %d strays: %+v", lost, strays, summary)
		}
		summary, _ = d.check(media.CheckConfig{Repair: true})
		if summary.Repaired != int64(strays) || summary.NeedsAttention != int64(lost) {
			t.Errorf("repaired: %+v", summary)
		}
		if summary, _ = d.check(media.CheckConfig{Repair: true}); summary.Repaired != 0 || summary.NeedsAttention != int64(lost) {
			t.Errorf("repaired again: %+v", summary)
		}
	})
}

// What is in flight is no finding, and is not mended away, whatever is going on.
func TestACheckBesideARunningServiceFindsNothing(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		log := slog.New(slog.DiscardHandler)
		service, err := media.New(config, media.Deps{Store: d.store, Objects: d.objects, Settings: settings.NewService(d.store), Now: time.Now, Log: log})
		must(t, err)
		purger, err := media.NewPurger(media.PurgeConfig{DraftTTL: 300 * time.Millisecond, BatchSize: 5, MaxAttempts: 1000, MaxBackoff: time.Second}, media.PurgeDeps{Store: d.store, Objects: d.objects, Now: time.Now, Log: log})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		sealed := map[uuid.UUID][]byte{}
		var done, parts atomic.Int64
		var all sync.WaitGroup
		gone := errors.New("the client has gone")
		act := func(client, n int) {
			size := 100*client + n%50
			if client == 0 {
				size = media.PartSize + 100 + n
				parts.Add(1)
			}
			data := random(size)
			var file io.Reader = bytes.NewReader(data)
			if n%5 == 4 {
				file = io.MultiReader(bytes.NewReader(data), failing{gone})
			}
			item, err := upload(t.Context(), service, d.p, file, media.Fields{Group: fmt.Sprint("g", n%3)})
			if err != nil {
				if !errors.Is(err, gone) {
					t.Errorf("upload: %v", err)
				}
				return
			}
			done.Add(1)
			switch n % 4 {
			case 0: // a draft for the purge
			case 1:
				if err := service.Delete(t.Context(), d.p, item.ID); err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("delete: %v", err)
				}
			default:
				if _, err := service.Seal(t.Context(), d.p, item.ID); fault.Is(err, fault.NotFound) {
					return // purged: the machine was slow
				} else if err != nil {
					t.Errorf("seal: %v", err)
				}
				if n%4 == 2 {
					mu.Lock()
					sealed[item.ID] = data
					mu.Unlock()
				} else if err := service.Delete(t.Context(), d.p, item.ID); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		}
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := purger.Run(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		})
		// What clients do in a round is fixed, and a round ends with the slower of clients and
		// check: how quick the store is changes neither the work nor the memory that it needs.
		for round := range 24 {
			var clients sync.WaitGroup
			for client := range 6 {
				clients.Go(func() {
					for n := range min(1+2*client, 3) { // one file in parts, three of the others
						act(client, 3*round+n)
					}
				})
			}
			cfg := media.CheckConfig{Repair: round%2 == 1, Deep: round%8 > 5}
			summary, findings := d.check(cfg)
			clients.Wait()
			if len(findings) > 0 {
				t.Errorf("round %d, %+v: %+v %+v", round, cfg, summary, findings)
				break
			}
		}
		stop()
		all.Wait()
		t.Logf("%d uploads, %d of them in parts, %d sealed", done.Load(), parts.Load(), len(sealed))
		for id, data := range sealed {
			item, err := service.Get(t.Context(), d.p, id)
			must(t, err)
			if !bytes.Equal(d.bytesOf(d.p, item.File()), data) {
				t.Errorf("item %s lost bytes", id)
			}
		}
		if summary, findings := d.check(media.CheckConfig{Deep: true}); len(findings) > 0 {
			t.Errorf("at the end: %+v %+v", summary, findings)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Counters are mended beside the service: increments that come between the recount
// and the mending are neither lost nor counted twice.
func TestCountersAreMendedBesideSealsAndDeletes(t *testing.T) {
	t.Parallel()
	d := spoilable(t, testenv.S3(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				item := d.sealed(d.p, random(10+client), media.Fields{Group: "g"})
				if client%2 == 0 {
					must(t, d.service.Delete(t.Context(), d.p, item.ID))
				}
			}
		})
	}
	for round := range 40 {
		d.sql(`UPDATE app_total SET bytes = bytes + 7, public_items = public_items - 1 WHERE app_id = $1 AND slot = $2`, d.p.App.ID, round%16)
		d.sql(`UPDATE account_usage SET bytes = bytes + 1000 WHERE account_id = $1`, d.p.Account.ID)
		d.sql(`INSERT INTO group_total (app_id, group_label, slot, private_items) VALUES ($1, 'g', 9, 1) ON CONFLICT (app_id, group_label, slot) DO UPDATE SET private_items = group_total.private_items + 1`, d.p.App.ID)
		// Two menders at once must not add twice.
		var menders sync.WaitGroup
		var mended atomic.Int64
		for range 2 {
			menders.Go(func() {
				drifts, err := d.store.MendCounters(t.Context(), d.p.Account.ID)
				if err != nil {
					t.Errorf("mend: %v", err)
				}
				mended.Add(int64(len(drifts)))
			})
		}
		menders.Wait()
		if mended.Load() != 3 {
			t.Errorf("round %d: %d counters were mended", round, mended.Load())
		}
		drifts, err := d.store.Drifts(t.Context(), d.p.Account.ID)
		must(t, err)
		if len(drifts) > 0 {
			t.Fatalf("round %d: %+v", round, drifts)
		}
	}
	stop()
	all.Wait()
	d.balanced(d.p)
}

// passing is a store of which a listing shows what is gone a moment later: an object
// that a delete removes, an unfinished upload that is completed.
type passing struct {
	*objectstore.Store
	key string
}

func (p passing) List(ctx context.Context, bucket, prefix string, visit func(media.Stored) error) error {
	if err := p.Store.List(ctx, bucket, prefix, visit); err != nil {
		return err
	}
	return visit(media.Stored{Key: p.key, Bytes: 1})
}

func (p passing) ListUnfinished(ctx context.Context, bucket, prefix string, visit func(media.Unfinished) error) error {
	if prefix == "" {
		if err := visit(media.Unfinished{Key: p.key}); err != nil {
			return err
		}
	}
	return p.Store.ListUnfinished(ctx, bucket, prefix, visit)
}

func TestWhatIsGoneWhenItIsLookedForAgainIsNoFinding(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, d *damaged) {
		d.sealed(d.p, random(10), media.Fields{})
		objects := passing{d.objects, media.ObjectKey(uuid.Must(uuid.NewV7()), media.Original)}
		checker, err := media.NewChecker(d.store, objects, media.CheckConfig{}, d.clock.Now, slog.New(slog.DiscardHandler))
		must(t, err)
		var summary media.CheckSummary
		must(t, checker.Check(t.Context(), d.p.Account, &summary, func(f media.Finding) error {
			t.Errorf("found %+v", f)
			return nil
		}))
	})
}
