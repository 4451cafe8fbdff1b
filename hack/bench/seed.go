package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
)

// seed describes items to load into the database, past the service. Their objects
// are not in the store.
type seed struct {
	items int
	// first is the number of the first item; names and ids follow from numbers.
	first int
	// access decides for each item.
	access func(n int) media.Access
	// groups is how many groups every second item is spread over; 0 = none is in a group.
	groups int
	// drafts are not sealed, and a day and an hour old.
	drafts bool
	// caption returns that of an item; nil = items have none.
	caption func(n int) string
	// capture returns what the file of an item says of how it was made; nil = nothing.
	capture func(n int) capture.Capture
	// object is stored for each item as its only one; nil = a photo with its derivatives.
	object func(id uuid.UUID) (objects string, bytes int64)
}

// span is how far back in time the first sealed item is.
const span = 365 * 24 * time.Hour

// at is when an item was made: they come at an even pace until an hour ago.
func (s seed) at(n int, now time.Time) time.Time {
	if s.drafts {
		return now.Add(-25 * time.Hour)
	}
	return now.Add(-time.Hour - span + time.Duration(float64(span)*float64(n)/float64(s.items)))
}

func (s seed) group(n int) string {
	if s.groups == 0 || n%2 == 0 {
		return ""
	}
	return groupName(n / 2 % s.groups)
}

func groupName(n int) string { return fmt.Sprintf("album-%02d", n) }

// captureColumn returns the column of an item, as the service writes it.
func (s seed) captureColumn(n int) string {
	if s.capture == nil {
		return "{}"
	}
	c := s.capture(n)
	at, _ := c.Time()
	return fmt.Sprintf(`{"at":%q,"ms":%d,"cell":%d,"camera":%q,"location":{"lat":%v,"lon":%v}}`, c.At, at.UnixMilli(), c.Location.Cell(), c.Camera, c.Location.Latitude, c.Location.Longitude)
}

// idAt makes a UUIDv7 of a time; n distinguishes those of one millisecond apart and in order.
func idAt(at time.Time, n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16|7<<12|uint64(n)&0xfff)
	binary.BigEndian.PutUint64(id[8:], rand.NewPCG(uint64(n), 1).Uint64())
	id[8] = id[8]&0x3f | 0x80
	return id
}

// photo writes the objects of a photo with a WebP conversion and a thumbnail, as the
// service does. It is called a million times, so it writes JSON by hand.
func photo(id uuid.UUID) (objects string, bytes int64) {
	size := int64(id[15]) << 10
	var text []byte
	for i, one := range []struct {
		variant  media.Variant
		bytes    int64
		mimeType string
	}{{media.Original, 3<<20 + size, "image/jpeg"}, {media.WebP, 1<<20 + size, "image/webp"}, {media.Thumbnail, 9000 + int64(id[14]), "image/webp"}} {
		// Bytes that do not compress, as a hash's.
		first := rand.NewPCG(binary.BigEndian.Uint64(id[8:]), uint64(i))
		text = fmt.Appendf(text, `,{"variant":%q,"key":%q,"bytes":%d,"mimeType":%q,"sha256":"%016x%016x%016x%016x"}`,
			one.variant, media.WriterKey(id, one.variant, 1), one.bytes, one.mimeType, first.Uint64(), first.Uint64(), first.Uint64(), first.Uint64())
		bytes += one.bytes
	}
	text[0] = '['
	return string(text) + "]", bytes
}

// seed loads items and everything that is counted of them, as if the service had made
// them, and returns the ids of the first thousand. Call vacuum when all is loaded.
func (env *environment) seed(ctx context.Context, t tenant, s seed) ([]uuid.UUID, error) {
	ids, err := env.load(ctx, []tenant{t}, s)
	if err != nil {
		return nil, err
	}
	return ids, env.count(ctx, t)
}

// load loads items of tenants in turns, in one transaction, and returns the ids of the first thousand. Call count when all of a
// tenant are loaded.
func (env *environment) load(ctx context.Context, tenants []tenant, s seed) ([]uuid.UUID, error) {
	conn, err := pgx.Connect(ctx, env.server.AdminURL(database))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Looking up the account of each item would take longer than loading them.
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica"); err != nil {
		return nil, err
	}
	// What is searched of an item is kept by a trigger, which is needed all the same.
	if _, err := conn.Exec(ctx, "ALTER TABLE stored_item ENABLE ALWAYS TRIGGER item_search_text"); err != nil {
		return nil, err
	}
	now := time.Now()
	objects := s.object
	if objects == nil {
		objects = photo
	}
	var ids []uuid.UUID
	n := 0
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"stored_item"},
		[]string{"id", "account_id", "app_id", "file_name", "access", "caption", "group_label", "objects", "bytes", "created_at", "sealed_at", "capture"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n == s.items {
				return nil, nil
			}
			t, number := tenants[n%len(tenants)], s.first+n
			at := s.at(n, now)
			id := idAt(at, number)
			if len(ids) < 1000 {
				ids = append(ids, id)
			}
			made, bytes := objects(id)
			var sealed *time.Time
			if !s.drafts {
				sealed = &at
			}
			caption := ""
			if s.caption != nil {
				caption = s.caption(number)
			}
			row := []any{id, t.Account.ID, t.AppID, fmt.Sprintf("IMG_%07d.jpg", number), string(s.access(n)), caption, s.group(n), made, bytes, at, sealed, s.captureColumn(number)}
			n++
			return row, nil
		}))
	if err != nil {
		return nil, fmt.Errorf("load items: %w", err)
	}
	return ids, nil
}

// count sets everything that is counted of the items of tenants.
func (env *environment) count(ctx context.Context, tenants ...tenant) error {
	conn, err := pgx.Connect(ctx, env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, t := range tenants {
			for _, statement := range countSeed {
				if _, err := tx.Exec(ctx, statement, t.AppID); err != nil {
					return fmt.Errorf("count what was loaded: %w", err)
				}
			}
		}
		return nil
	})
}

// countSeed sets an app's totals to a recount, spread over the slots as seals do it,
// and leaves an empty index of pages, with a delta for each list that is to be counted.
var countSeed = []string{
	`UPDATE app_total SET public_items = t.public_items, private_items = t.private_items, bytes = t.bytes
	FROM (
		SELECT (hashtext(id::text) & 15)::smallint AS slot, count(*) FILTER (WHERE access = 'public') AS public_items,
			count(*) FILTER (WHERE access = 'private') AS private_items, sum(bytes) AS bytes
		FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL GROUP BY 1
	) AS t WHERE app_total.app_id = $1 AND app_total.slot = t.slot`,
	`DELETE FROM group_total WHERE app_id = $1`,
	`INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
	SELECT app_id, group_label, (hashtext(id::text) & 3)::smallint, count(*) FILTER (WHERE access = 'public'), count(*) FILTER (WHERE access = 'private')
	FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL AND group_label <> '' GROUP BY 1, 2, 3`,
	`UPDATE account_usage SET bytes = (SELECT coalesce(sum(bytes), 0) FROM item WHERE item.account_id = account_usage.account_id)
	WHERE account_id = (SELECT account_id FROM app WHERE id = $1)`,
	`DELETE FROM item_page_block WHERE app_id = $1`,
	`DELETE FROM item_page_delta WHERE app_id = $1`,
	`INSERT INTO item_page_delta (app_id, id, group_label, delta, public)
	SELECT $1, '00000000-0000-0000-0000-000000000000', label, 0, false FROM (SELECT DISTINCT group_label FROM group_total WHERE app_id = $1 UNION SELECT '') AS list (label)`,
}

// vacuum does what autovacuum does after a while.
func (env *environment) vacuum(ctx context.Context) error {
	return errors.Join(env.execute(ctx, "VACUUM ANALYZE"), env.execute(ctx, "CHECKPOINT"))
}

// execute executes a statement as the administrator of the database.
func (env *environment) execute(ctx context.Context, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement, args...)
	return err
}

// noteTables prints the sizes of the largest tables, and whether autovacuum keeps up with them.
func (b *bench) noteTables(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found, err := conn.Query(ctx, `SELECT relname::text, n_live_tup, n_dead_tup, pg_table_size(relid), pg_indexes_size(relid), autovacuum_count
		FROM pg_stat_user_tables ORDER BY pg_total_relation_size(relid) DESC LIMIT 8`)
	if err != nil {
		return err
	}
	type relation struct {
		Name                             string
		Live, Dead, Table, Indexes, Runs int64
	}
	relations, err := pgx.CollectRows(found, pgx.RowToStructByPos[relation])
	if err != nil {
		return err
	}
	t := table{{"table", "rows", "dead rows", "MiB", "MiB of indexes", "autovacuums"}}
	for _, r := range relations {
		t.row(r.Name, fmt.Sprint(r.Live), fmt.Sprint(r.Dead), number(mebibytes(uint64(r.Table))), number(mebibytes(uint64(r.Indexes))), fmt.Sprint(r.Runs))
	}
	b.note("")
	t.print(b.out)
	return nil
}
