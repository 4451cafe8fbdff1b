-- name: ListItemsByIndex :many
-- Lists a page by its offset. The blocks and their deltas determine the block in which the
-- page begins; only items from there on are scanned.
WITH deltas AS MATERIALIZED (
    SELECT coalesce((SELECT b.first_id FROM item_page_block b WHERE b.app_id = $1 AND b.first_id <= c.id ORDER BY b.first_id DESC LIMIT 1),
            '00000000-0000-0000-0000-000000000000'::uuid) AS first_id,
        sum(c.delta) AS items, sum(c.delta) FILTER (WHERE c.public) AS public_items
    FROM item_page_delta c WHERE c.app_id = $1 GROUP BY 1
), counted AS (
    SELECT first_id, items, public_items FROM item_page_block WHERE app_id = $1
    UNION ALL SELECT '00000000-0000-0000-0000-000000000000'::uuid, 0, 0
    WHERE NOT EXISTS (SELECT FROM item_page_block WHERE app_id = $1 AND first_id = '00000000-0000-0000-0000-000000000000'::uuid)
), block AS (
    SELECT b.first_id,
        CASE sqlc.arg(access)::text WHEN '' THEN b.items + coalesce(deltas.items, 0)
            WHEN 'public' THEN b.public_items + coalesce(deltas.public_items, 0)
            ELSE b.items - b.public_items + coalesce(deltas.items, 0) - coalesce(deltas.public_items, 0) END AS items
    FROM counted b LEFT JOIN deltas ON deltas.first_id = b.first_id
), running AS (
    SELECT first_id, items, sum(items) OVER newest AS upto, lag(first_id) OVER newest AS next_id
    FROM block WINDOW newest AS (ORDER BY first_id DESC)
), beginning AS MATERIALIZED (
    SELECT next_id, (sqlc.arg(skip)::bigint - (upto - items))::bigint AS skip FROM running WHERE upto > sqlc.arg(skip)::bigint ORDER BY first_id DESC LIMIT 1
)
SELECT sqlc.embed(item) FROM item
WHERE item.id IN (
    SELECT page.id FROM beginning, LATERAL (
        SELECT i.id FROM item i
        WHERE i.app_id = $1 AND i.sealed_at IS NOT NULL AND (sqlc.arg(access)::text = '' OR i.access = sqlc.arg(access)::text)
          AND i.id < coalesce(beginning.next_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
        ORDER BY i.id DESC LIMIT sqlc.arg(page_size)::int OFFSET beginning.skip
    ) AS page)
ORDER BY item.id DESC;

-- name: TryCompactLock :one
SELECT pg_try_advisory_xact_lock(sqlc.arg(class)::int, hashtext(sqlc.arg(app_id)::uuid::text));

-- name: DeleteDeltas :many
DELETE FROM item_page_delta WHERE app_id = $1 RETURNING id;

-- name: Blocks :many
SELECT first_id FROM item_page_block WHERE app_id = $1 ORDER BY first_id;

-- name: CountBlock :many
-- Counts the sealed items of a range of ids, in parts of part_size.
SELECT (array_agg(id ORDER BY id))[1]::uuid AS first_id, count(*) AS items, count(*) FILTER (WHERE access = 'public') AS public_items
FROM (
    SELECT i.id, i.access, (row_number() OVER (ORDER BY i.id) - 1) / sqlc.arg(part_size)::int AS part FROM item i
    WHERE i.app_id = $1 AND i.sealed_at IS NOT NULL AND i.id >= sqlc.arg(first_id)::uuid AND i.id < sqlc.arg(next_id)::uuid
) AS counted GROUP BY part ORDER BY part;

-- name: SetBlock :exec
INSERT INTO item_page_block (app_id, first_id, items, public_items) VALUES ($1, $2, $3, $4)
ON CONFLICT (app_id, first_id) DO UPDATE SET items = excluded.items, public_items = excluded.public_items;

-- name: DeleteBlock :exec
DELETE FROM item_page_block WHERE app_id = $1 AND first_id = $2;

-- name: AppsWithDeltas :many
SELECT DISTINCT app_id FROM item_page_delta;
