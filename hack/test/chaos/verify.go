package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/hack/test/chaos/faults"
	"mediastack.dev/runtime/media"
)

// sampleQuota compares, as often as it can, the bytes that an account holds with its quota and with a
// recount.
func (e *environment) sampleQuota(ctx context.Context, m *model) {
	for ctx.Err() == nil {
		faults.Sleep(ctx, 50*time.Millisecond)
		conn, err := pgx.Connect(ctx, e.adminURL)
		if err != nil {
			continue // in an outage
		}
		for ctx.Err() == nil {
			rows, err := conn.Query(ctx, `SELECT account.name, account.max_storage, account_usage.bytes,
				(SELECT coalesce(sum(bytes), 0) FROM item WHERE item.account_id = account.id)::bigint + (SELECT coalesce(sum(reserved), 0) FROM upload WHERE upload.account_id = account.id)::bigint
				FROM account JOIN account_usage ON account_usage.account_id = account.id`)
			if err != nil {
				break
			}
			var name string
			var most, held, recount int64
			_, err = pgx.ForEachRow(rows, []any{&name, &most, &held, &recount}, func() error {
				m.count("looks at a cap")
				if held > most || recount > most || held != recount {
					m.wrong(nil, "account %s holds %d bytes, a recount gives %d, its cap is %d", name, held, recount, most)
				}
				return nil
			})
			if err != nil {
				break
			}
			faults.Sleep(ctx, 100*time.Millisecond)
		}
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// maxClaim is how long a purge that is killed keeps removals to itself.
const maxClaim = 5*time.Minute + 10*time.Second

// verify restarts the runtimes in order, runs one purge, and compares what is left with what was
// acknowledged.
func (e *environment) verify(ctx context.Context, m *model, wait bool) error {
	e.dbProxy.Set(faults.Open)
	e.s3Proxy.Set(faults.Open)
	// An orderly restart: whatever requests still ran have ended.
	for _, replica := range e.replicas {
		if died := replica.Err(); died != nil {
			m.wrong(nil, "%v", died)
		}
		replica.Stop()
	}
	// Connections of the dead could still pass on what they had sent.
	e.dbProxy.Set(faults.Cut)
	e.s3Proxy.Set(faults.Cut)
	e.dbProxy.Set(faults.Open)
	e.s3Proxy.Set(faults.Open)
	for _, replica := range e.replicas {
		replica.Spec.Ready = replica.ready
		if err := replica.Restart(ctx); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, e.adminURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if wait {
		faults.Sleep(ctx, maxClaim)
	} else if _, err := conn.Exec(ctx, `WITH leases AS (UPDATE upload SET lease_ends = lease_ends - interval '1 hour'),
		uploads AS (UPDATE resumable_upload SET expires_at = expires_at - interval '1 hour')
		UPDATE object_removal SET not_before = not_before - interval '1 hour'`); err != nil {
		// As if that hour had passed: nothing else keeps a time.
		return err
	}
	_, out, err := e.call(ctx, []string{"SERVICE_DRAFT_TTL=1ms"}, "purge")
	if err != nil {
		m.wrong(nil, "the last purge: %v: %s", err, out)
	}
	var swept media.PurgeSummary
	if err := json.Unmarshal([]byte(out), &swept); err != nil || !swept.Ran || swept.RemovalsFailed != 0 || swept.RemovalsPending != 0 {
		m.wrong(nil, "the last purge printed %s", out)
	}
	for _, table := range []string{"upload", "resumable_upload", "object_removal"} {
		var left int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&left); err != nil {
			return err
		}
		if left != 0 {
			m.wrong(nil, "%d rows are left in %s", left, table)
		}
	}
	code, out, err := e.call(ctx, nil, "check", "--all", "--deep", "--grace=0s")
	if code != 0 {
		m.wrong(nil, "the check found: %v\n%s", err, out)
	}
	for n, t := range e.tenants {
		c := &client{env: e, model: m, tenant: t, draw: rand.New(rand.NewPCG(1, uint64(n))), http: newHTTP()}
		if err := c.verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verify compares what one tenant sees, and what its bucket holds, with the model.
// It trusts neither the rows nor the check.
func (c *client) verify(ctx context.Context) error {
	listed, err := c.list(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, i := range c.model.all() {
		if i.tenant != c.tenant {
			continue
		}
		known[i.id] = true
		status, found := c.read(ctx, i)
		if wrong := i.final(status, found.Temp, listed[i.id]); wrong != "" {
			c.model.wrong(i, "at the end: %s", wrong)
		}
		if status == 200 && converted(i, found) {
			c.original(ctx, i)
		}
	}
	for id := range listed {
		if !known[id] {
			c.model.wrong(nil, "item %s of %s is listed, but its id was never answered", id, c.tenant.name)
		}
	}
	return c.bucket(ctx, listed)
}

// list reads the whole list, page by page, and compares its length with what is said of it.
func (c *client) list(ctx context.Context) (map[string]bool, error) {
	listed := map[string]bool{}
	for page := 1; ; page++ {
		got := c.ask(ctx, nil, http.MethodGet, fmt.Sprintf("/media/get?limit=100&page=%d", page))
		var items []document
		if err := json.Unmarshal(got.body, &items); got.status != 200 || err != nil {
			return nil, fmt.Errorf("list page %d: %s", page, got)
		}
		for _, one := range items {
			if one.Temp || listed[one.MediaID] {
				c.model.wrong(nil, "item %s is listed as a draft, or twice", one.MediaID)
			}
			listed[one.MediaID] = true
		}
		if len(items) == 100 {
			continue
		}
		if total := got.header.Get("X-Total-Count"); total != strconv.Itoa(len(listed)) {
			c.model.wrong(nil, "%s: X-Total-Count is %s, %d items are listed", c.tenant.name, total, len(listed))
		}
		var count struct {
			Count int `json:"count"`
		}
		got = c.ask(ctx, nil, http.MethodGet, "/media/get/count")
		if err := json.Unmarshal(got.body, &count); err != nil || count.Count != len(listed) {
			c.model.wrong(nil, "%s: the count is %s, %d items are listed", c.tenant.name, got.body, len(listed))
		}
		return listed, nil
	}
}

// original compares what S3 holds with what was sent, where the service shows a conversion.
func (c *client) original(ctx context.Context, i *item) {
	object, err := c.env.raw.GetObject(ctx, c.tenant.Account.Bucket, "media/"+i.id+"/original", minio.GetObjectOptions{})
	if err != nil {
		c.model.wrong(i, "its original: %v", err)
		return
	}
	defer func() { _ = object.Close() }()
	digest := sha256.New()
	if _, err := io.Copy(digest, object); err != nil || hex.EncodeToString(digest.Sum(nil)) != i.sum {
		c.model.wrong(i, "its original's SHA-256 is %x: %v", digest.Sum(nil), err)
	}
}

// itemOf returns the item that a key belongs to.
func itemOf(key string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(key, "media/"), "/")
	return id
}

// bucket looks for objects of anything but the items that are listed, and compares
// their bytes with the totals: with every draft purged, nothing else may be there.
func (c *client) bucket(ctx context.Context, listed map[string]bool) error {
	var bytes int64
	originals := 0
	for object := range c.env.raw.ListObjects(ctx, c.tenant.Account.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			return object.Err
		}
		parts := strings.Split(object.Key, "/")
		switch {
		case object.Key == "_mediastack/owner.json":
		case len(parts) != 3 || parts[0] != "media" || !listed[parts[1]]:
			c.model.wrong(c.model.find(itemOf(object.Key)), "object %s of %s is left, and no item has it", object.Key, c.tenant.name)
		default:
			bytes += object.Size
			if parts[2] == "original" {
				originals++
			} else {
				c.model.count("derivatives kept")
			}
		}
	}
	if originals != len(listed) {
		c.model.wrong(nil, "%d originals of %s are there, for %d items", originals, c.tenant.name, len(listed))
	}
	for upload := range c.env.raw.ListIncompleteUploads(ctx, c.tenant.Account.Bucket, "", true) {
		if upload.Err != nil {
			return upload.Err
		}
		c.model.wrong(c.model.find(itemOf(upload.Key)), "an unfinished upload of %s is left in %s", upload.Key, c.tenant.name)
	}
	var totals struct {
		Storage    int64 `json:"storage"`
		MaxStorage int64 `json:"maxStorage"`
	}
	got := c.ask(ctx, nil, http.MethodGet, "/media/get/size")
	if err := json.Unmarshal(got.body, &totals); err != nil || totals.Storage != bytes || totals.MaxStorage != c.tenant.maxStorage {
		c.model.wrong(nil, "the totals of %s are %s, its bucket holds %d bytes", c.tenant.name, got.body, bytes)
	}
	return nil
}
