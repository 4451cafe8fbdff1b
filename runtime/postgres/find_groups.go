package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
)

// groupsSQL reads totals of groups after a name, in the order of the primary key. Those of groups without items stay.
const groupsSQL = `-- name: ListGroups :many
SELECT group_label, sum(items)::bigint, sum(n)::bigint FROM (
    SELECT group_label, 1 AS n, CASE $3::text WHEN 'public' THEN public_items WHEN 'private' THEN private_items ELSE public_items + private_items END AS items
    FROM group_total WHERE app_id = $1 AND group_label > $2 ORDER BY app_id, group_label, slot LIMIT (SELECT $4::bigint)
) AS examined GROUP BY group_label ORDER BY group_label`

// Groups implements media.Store.
func (s Items) Groups(ctx context.Context, scope media.Scope, access media.Access, after string, limit int) (media.GroupList, error) {
	list, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (list media.GroupList, err error) {
		err = s.withSettings(ctx, groupSettings, groupsSQL, []any{scope.AppID, after, string(access), s.searches.groupRows}, func(rows pgx.Rows) (err error) {
			list, err = scanGroups(rows, limit, s.searches.groupRows)
			return err
		})
		return list, err
	})
	return list, toFault(err, "list groups")
}

// scanGroups reads up to limit groups of the examined rows. If those are all that may be examined, the last group may have more rows: the next request
// begins with it.
func scanGroups(rows pgx.Rows, limit, examined int) (list media.GroupList, err error) {
	var all []media.ItemCount
	total := int64(0)
	for rows.Next() {
		var one media.ItemCount
		var n int64
		if err := rows.Scan(&one.Name, &one.Items, &n); err != nil {
			return media.GroupList{}, err
		}
		all, total = append(all, one), total+n
	}
	more := total >= int64(examined)
	if more {
		all = all[:len(all)-1]
	}
	for i, one := range all {
		if one.Items > 0 {
			list.Groups = append(list.Groups, one)
		}
		if (more || i < len(all)-1) && (len(list.Groups) == limit || i == len(all)-1) {
			list.Last = one.Name
			break
		}
	}
	return list, rows.Err()
}

// groupSettings have totals read in the order of their index.
const groupSettings = `-- name: OrderGroups :exec
SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// keysSQL counts the keys of the newest items.
const keysSQL = `-- name: ListMetadataKeys :many
WITH examined AS MATERIALIZED (SELECT metadata FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id DESC LIMIT (SELECT $2::bigint + 1))
SELECT (SELECT count(*) FROM examined), counted.key, counted.items FROM (SELECT) AS one LEFT JOIN LATERAL (
    SELECT key, count(*) AS items FROM (SELECT metadata FROM examined LIMIT $2::bigint) AS newest, jsonb_object_keys(metadata) AS key GROUP BY key ORDER BY count(*) DESC, key LIMIT $3
) AS counted ON true`

// MetadataKeys implements media.Store.
func (s Items) MetadataKeys(ctx context.Context, scope media.Scope, limit int) (media.KeyCounts, error) {
	counts, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (counts media.KeyCounts, err error) {
		rows, err := s.pool.Query(ctx, keysSQL, scope.AppID, s.searches.lastScan, limit+1)
		if err != nil {
			return media.KeyCounts{}, err
		}
		defer rows.Close()
		for rows.Next() {
			var examined int
			var name *string
			var items *int64
			if err := rows.Scan(&examined, &name, &items); err != nil {
				return media.KeyCounts{}, err
			}
			counts.Partial = counts.Partial || examined > s.searches.lastScan
			switch {
			case name == nil:
			case len(counts.Keys) == limit:
				counts.Partial = true
			default:
				counts.Keys = append(counts.Keys, media.ItemCount{Name: *name, Items: *items})
			}
		}
		return counts, rows.Err()
	})
	return counts, toFault(err, "list the keys of metadata")
}
