package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
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
			rows, err := conn.Query(ctx, `SELECT account.name, account.max_storage, account_usage.bytes, account_usage.rendition_bytes,
				(SELECT coalesce(sum(bytes), 0) FROM stored_item WHERE stored_item.account_id = account.id)::bigint + (SELECT coalesce(sum(reserved), 0) FROM upload WHERE upload.account_id = account.id)::bigint,
				(SELECT coalesce(sum(bytes), 0) FROM rendition WHERE rendition.account_id = account.id)::bigint
				FROM account JOIN account_usage ON account_usage.account_id = account.id`)
			if err != nil {
				break
			}
			var name string
			var most, held, heldByPictures, recount, pictures int64
			_, err = pgx.ForEachRow(rows, []any{&name, &most, &held, &heldByPictures, &recount, &pictures}, func() error {
				m.count("looks at a cap")
				if held > most || held != recount+pictures || heldByPictures != pictures {
					m.wrong(nil, "account %s holds %d bytes, %d of them in renditions, a recount gives %d and %d, its cap is %d", name, held, heldByPictures, recount+pictures, pictures, most)
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

// maxClaim is how long a purge that is killed keeps the removals of an account to itself.
const maxClaim = 2*time.Minute + 40*time.Second

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
	conn, err := pgx.Connect(ctx, e.adminURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, replica := range e.replicas {
		replica.Spec.Ready = replica.ready
		if err := replica.Restart(ctx); err != nil {
			return err
		}
	}
	e.endFetches(ctx, m) // which may reach the caps
	if err := e.makeRoom(ctx, conn); err != nil {
		return err
	}
	if err := e.derived(ctx, m, conn); err != nil {
		return err
	}
	if err := e.searched(ctx, m, conn, wait); err != nil {
		return err
	}
	// Renditions end first: the removals of their objects are due later.
	if err := e.pass(ctx, conn, wait); err != nil {
		return err
	}
	for range 2 { // the first purge finds which renditions are stale, and the second one ends them
		if _, out, err := e.call(ctx, []string{"SERVICE_RENDITION_STALE_GRACE=0s"}, "purge"); err != nil {
			m.wrong(nil, "a purge of renditions: %v: %s", err, out)
		}
	}
	if err := e.pass(ctx, conn, wait); err != nil {
		return err
	}
	// The objects of deleted items are there, and the purge ends the items whose time is over.
	if code, out, err := e.call(ctx, nil, "check", "--all", "--deep"); code != 0 {
		m.wrong(nil, "the check before the last purge found: %v\n%s", err, out)
	}
	if _, err := conn.Exec(ctx, `UPDATE stored_item SET restorable_until = now() - interval '1 second' WHERE deleted_at IS NOT NULL`); err != nil {
		return err
	}
	_, out, err := e.call(ctx, []string{"SERVICE_DRAFT_TTL=1ms"}, "purge")
	if err != nil {
		m.wrong(nil, "the last purge: %v: %s", err, out)
	}
	var swept media.PurgeSummary
	if err := json.Unmarshal([]byte(out), &swept); err != nil || !swept.Ran || swept.RemovalsFailed != 0 {
		m.wrong(nil, "the last purge printed %s", out)
	}
	if err := e.removed(ctx, conn); err != nil {
		return err
	}
	for _, table := range []string{"upload", "resumable_upload", "object_removal", "rendition WHERE NOT ready", "rendition_total WHERE stale_since IS NOT NULL"} {
		var left int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&left); err != nil {
			return err
		}
		if left != 0 {
			m.wrong(nil, "%d rows are left in %s", left, table)
		}
	}
	var unended, interrupted int
	if err := conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE ended_at IS NULL OR url <> ''), count(*) FILTER (WHERE attempts > 1) FROM fetch_job`).Scan(&unended, &interrupted); err != nil {
		return err
	}
	m.countBy("uploads from a URL that were begun again", interrupted)
	if unended != 0 {
		m.wrong(nil, "%d uploads from a URL have not ended, or have kept their URL", unended)
	}
	code, out, err := e.call(ctx, nil, "check", "--all", "--deep", "--grace=0s")
	if code != 0 {
		m.wrong(nil, "the check found: %v\n%s", err, out)
	}
	for n, t := range e.tenants {
		c := &client{env: e, model: m, tenant: t, draw: newDraw(1, uint64(n)), http: newHTTP()}
		if err := c.verify(ctx, conn); err != nil {
			return err
		}
	}
	if code, out, err := e.call(ctx, nil, "check", "--all", "--deep", "--grace=0s"); code != 0 {
		m.wrong(nil, "the check after the last pictures found: %v\n%s", err, out)
	}
	if err := e.verifyJournal(ctx, m, conn); err != nil || e.receiver == nil {
		return err
	}
	return e.receiver.verify(ctx, conn)
}

// maxLease is how long the lease of a killed runtime lasts, with the time until another one has noticed.
const maxLease = 90 * time.Second

// searched waits until the replicas have searched the buckets for what the killed ones have stored and not recorded. The grace until
// then passes at once, unless wait is set.
func (e *environment) searched(ctx context.Context, m *model, conn *pgx.Conn, wait bool) error {
	limit := maxLease
	if wait {
		limit += 6 * time.Minute // the grace, and the pause until a task is found
	}
	for until := time.Now().Add(limit); ; faults.Sleep(ctx, 100*time.Millisecond) {
		if !wait {
			if _, err := conn.Exec(ctx, `WITH tasks AS (UPDATE work SET due_at = now() WHERE kind = 'unrecorded_objects' AND claim IS NULL AND due_at > now())
				UPDATE upload_writer SET ended_at = ended_at - interval '1 hour' WHERE ended_at > now() - interval '1 hour'`); err != nil {
				return err
			}
		}
		var left int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM upload_writer w WHERE NOT EXISTS (SELECT FROM runtime_instance r WHERE r.id = w.instance_id AND r.lease_ends >= now())`).Scan(&left); err != nil || left == 0 {
			return err
		}
		if time.Now().After(until) || ctx.Err() != nil {
			m.wrong(nil, "%d writers of killed runtimes are left", left)
			return nil
		}
	}
}

// makeRoom raises the caps of the accounts whose derivatives are made later: without room, they would wait for it.
func (e *environment) makeRoom(ctx context.Context, conn *pgx.Conn) error {
	for _, t := range e.tenants {
		if !t.later {
			continue
		}
		t.maxStorage += 100 << 20
		if _, err := conn.Exec(ctx, `UPDATE account SET max_storage = $2 WHERE id = $1`, t.Account.ID, t.maxStorage); err != nil {
			return err
		}
	}
	return nil
}

// derived waits until the derivatives of all items are made. The pauses after failures, and of accounts that had no room, end at once. Claims
// end with the lease of their process.
func (e *environment) derived(ctx context.Context, m *model, conn *pgx.Conn) error {
	for until := time.Now().Add(maxLease); ; faults.Sleep(ctx, 100*time.Millisecond) {
		if _, err := conn.Exec(ctx, `WITH turns AS (UPDATE work_turn SET not_before = 'epoch' WHERE kind = 'derivatives')
			UPDATE work SET due_at = now() WHERE kind = 'derivatives' AND claim IS NULL AND due_at > now()`); err != nil {
			return err
		}
		var pending, tasks int
		if err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM item WHERE derivatives_state = 1), (SELECT count(*) FROM work WHERE kind = 'derivatives')`).Scan(&pending, &tasks); err != nil {
			return err
		}
		if pending+tasks == 0 {
			break
		}
		if time.Now().After(until) || ctx.Err() != nil {
			m.wrong(nil, "the derivatives of %d items are still to be made, by %d tasks", pending, tasks)
			return nil
		}
	}
	var later int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM item WHERE derivatives_state = 2 AND jsonb_array_length(objects) > 1`).Scan(&later); err != nil {
		return err
	}
	m.countBy("items with derivatives that were made later", later)
	return nil
}

// removed waits until the replicas have carried out the removals that the last purge left to them.
func (e *environment) removed(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, maxClaim)
	defer cancel()
	for {
		var left int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM object_removal`).Scan(&left); err != nil || left == 0 {
			return err
		}
		faults.Sleep(ctx, 100*time.Millisecond)
	}
}

// pass makes the time pass after which leases, claims and the removals of objects are due.
func (e *environment) pass(ctx context.Context, conn *pgx.Conn, wait bool) error {
	if wait {
		faults.Sleep(ctx, maxClaim)
		return nil
	}
	// As if that hour had passed: nothing else keeps a time.
	_, err := conn.Exec(ctx, `WITH leases AS (UPDATE upload SET lease_ends = lease_ends - interval '1 hour'),
		uploads AS (UPDATE resumable_upload SET expires_at = expires_at - interval '1 hour'),
		claims AS (UPDATE rendition SET lease_ends = lease_ends - interval '1 hour'),
		tasks AS (UPDATE work SET due_at = due_at - interval '1 hour')
		UPDATE object_removal SET not_before = not_before - interval '1 hour'`)
	return err
}

// verify compares what one tenant sees, and what its bucket holds, with the model.
// It trusts neither the rows nor the check.
func (c *client) verify(ctx context.Context, conn *pgx.Conn) error {
	listed, err := c.list(ctx)
	if err != nil {
		return err
	}
	known, images := map[string]bool{}, []*item(nil)
	for _, i := range c.model.all() {
		if i.tenant != c.tenant {
			continue
		}
		known[i.id] = true
		status, found := c.read(ctx, i)
		_, isListed := listed[i.id]
		if wrong := i.final(status, found.Temp, isListed); wrong != "" {
			c.model.wrong(i, "at the end: %s", wrong)
		}
		if status == 200 && converted(i, found) {
			c.original(ctx, i)
		}
		if status == 200 && i.photo != nil {
			images = append(images, i)
		}
	}
	for id, found := range listed {
		if known[id] {
			continue
		}
		// The job of a request that was not answered may have made it.
		if j := c.model.ofUnheard(c.tenant, found.Caption); j != nil {
			j.id, j.sealTried, j.sealed = id, true, true
			c.read(ctx, j.item)
		} else {
			c.model.wrong(nil, "item %s of %s is listed, but its id was never answered", id, c.tenant.name)
		}
	}
	kept, err := c.renditions(ctx, conn)
	if err != nil {
		return err
	}
	c.model.countBy("renditions left at the end", len(kept))
	c.verifyPictures(ctx, images)
	return c.bucket(ctx, conn, listed)
}

// renditions returns the bytes of the stored renditions of the tenant, by the keys of their objects.
func (c *client) renditions(ctx context.Context, conn *pgx.Conn) (map[string]int64, error) {
	rows, err := conn.Query(ctx, `SELECT 'media/' || item_id || '/rendition-' || id, bytes FROM rendition WHERE account_id = $1 AND ready`, c.tenant.Account.ID)
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	var key string
	var bytes int64
	_, err = pgx.ForEachRow(rows, []any{&key, &bytes}, func() error {
		found[key] = bytes
		return nil
	})
	return found, err
}

// list reads the whole list, page by page, and compares its length with what is said of it.
func (c *client) list(ctx context.Context) (map[string]document, error) {
	listed := map[string]document{}
	for page := 1; ; page++ {
		got := c.ask(ctx, nil, http.MethodGet, fmt.Sprintf("/media/get?limit=100&page=%d", page))
		var items []document
		if err := json.Unmarshal(got.body, &items); got.status != 200 || err != nil {
			return nil, fmt.Errorf("list page %d: %s", page, got)
		}
		for _, one := range items {
			if _, twice := listed[one.MediaID]; one.Temp || twice {
				c.model.wrong(nil, "item %s is listed as a draft, or twice", one.MediaID)
			}
			listed[one.MediaID] = one
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
	key := ""
	for found := range c.env.raw.ListObjects(ctx, c.tenant.Account.Bucket, minio.ListObjectsOptions{Prefix: "media/" + i.id + "/original"}) {
		key = found.Key
	}
	object, err := c.env.raw.GetObject(ctx, c.tenant.Account.Bucket, key, minio.GetObjectOptions{})
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

// bucket looks for objects of anything but the items that are listed and their renditions, and compares
// their bytes with the totals: with every draft purged, nothing else may be there.
func (c *client) bucket(ctx context.Context, conn *pgx.Conn, listed map[string]document) error {
	rows, err := c.renditions(ctx, conn)
	if err != nil {
		return err
	}
	var bytes, inRenditions int64
	originals := 0
	for object := range c.env.raw.ListObjects(ctx, c.tenant.Account.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			return object.Err
		}
		parts := strings.Split(object.Key, "/")
		_, isListed := listed[itemOf(object.Key)]
		switch {
		case object.Key == "_mediastack/owner.json":
		case len(parts) != 3 || parts[0] != "media" || !isListed:
			c.model.wrong(c.model.find(itemOf(object.Key)), "object %s of %s is left, and no item has it", object.Key, c.tenant.name)
		case strings.HasPrefix(parts[2], "rendition-"):
			if size, there := rows[object.Key]; !there || size != object.Size {
				c.model.wrong(c.model.find(itemOf(object.Key)), "object %s of %s has %d bytes; a rendition has it: %t, with %d bytes", object.Key, c.tenant.name, object.Size, there, size)
			}
			delete(rows, object.Key)
			inRenditions += object.Size
		default:
			bytes += object.Size
			if media.VariantOfKey(object.Key) == media.Original {
				originals++
			} else {
				c.model.count("derivatives kept")
			}
		}
	}
	if originals != len(listed) {
		c.model.wrong(nil, "%d originals of %s are there, for %d items", originals, c.tenant.name, len(listed))
	}
	for key := range rows {
		c.model.wrong(c.model.find(itemOf(key)), "rendition %s of %s has no object", key, c.tenant.name)
	}
	var held, heldByRenditions int64
	if err := conn.QueryRow(ctx, `SELECT bytes, rendition_bytes FROM account_usage WHERE account_id = $1`, c.tenant.Account.ID).Scan(&held, &heldByRenditions); err != nil {
		return err
	}
	if held != bytes+inRenditions || heldByRenditions != inRenditions {
		c.model.wrong(nil, "account %s holds %d bytes, %d of them in renditions; its bucket has %d and %d", c.tenant.name, held, heldByRenditions, bytes+inRenditions, inRenditions)
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
