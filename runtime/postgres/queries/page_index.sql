-- The statements of lists are in ../list.go.

-- name: TryCompactLock :one
SELECT pg_try_advisory_xact_lock(sqlc.arg(class)::int, hashtext(sqlc.arg(app_id)::uuid::text));

-- name: DeleteDeltas :many
DELETE FROM item_page_delta WHERE app_id = $1 RETURNING id, group_label;

-- name: IndexedLists :many
-- The lists of the labels that have blocks, or that have more items than a list without blocks.
SELECT list.label, list.items
FROM (
    SELECT l.label::text AS label, (SELECT coalesce(sum(g.public_items + g.private_items), 0) FROM group_total g WHERE g.app_id = sqlc.arg(app_id)::uuid AND g.group_label = l.label)::bigint AS items
    FROM unnest(sqlc.arg(labels)::text[]) AS l (label)
    UNION ALL
    SELECT '', (SELECT coalesce(sum(a.public_items + a.private_items), 0) FROM app_total a WHERE a.app_id = sqlc.arg(app_id)::uuid)::bigint
) AS list
WHERE list.items > sqlc.arg(max_items)::bigint
    OR EXISTS (SELECT FROM item_page_block b WHERE b.app_id = sqlc.arg(app_id)::uuid AND b.group_label = list.label);

-- name: Blocks :many
SELECT first_id FROM item_page_block WHERE app_id = $1 AND group_label = $2 ORDER BY first_id;

-- name: CountBlock :many
-- Counts the sealed items of a range of ids, in parts of part_size.
SELECT (array_agg(id ORDER BY id))[1]::uuid AS first_id, count(*)::int AS items, (count(*) FILTER (WHERE access = 'public'))::int AS public_items
FROM (
    SELECT i.id, i.access, (row_number() OVER (ORDER BY i.id) - 1) / sqlc.arg(part_size)::int AS part FROM item i
    WHERE i.app_id = $1 AND i.sealed_at IS NOT NULL AND i.id >= sqlc.arg(first_id)::uuid AND i.id < sqlc.arg(next_id)::uuid
) AS counted GROUP BY part ORDER BY part;

-- name: CountGroupBlock :many
SELECT (array_agg(id ORDER BY id))[1]::uuid AS first_id, count(*)::int AS items, (count(*) FILTER (WHERE access = 'public'))::int AS public_items
FROM (
    SELECT i.id, i.access, (row_number() OVER (ORDER BY i.id) - 1) / sqlc.arg(part_size)::int AS part FROM item i
    WHERE i.app_id = $1 AND i.sealed_at IS NOT NULL AND i.group_label = sqlc.arg(group_label) AND i.group_label <> ''
        AND i.id >= sqlc.arg(first_id)::uuid AND i.id < sqlc.arg(next_id)::uuid
) AS counted GROUP BY part ORDER BY part;

-- name: SetBlock :exec
INSERT INTO item_page_block (app_id, group_label, first_id, items, public_items) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (app_id, group_label, first_id) DO UPDATE SET items = excluded.items, public_items = excluded.public_items;

-- name: DeleteBlock :exec
DELETE FROM item_page_block WHERE app_id = $1 AND group_label = $2 AND first_id = $3;

-- name: DeleteBlocks :exec
DELETE FROM item_page_block WHERE app_id = $1 AND group_label = $2;

-- name: AppsWithDeltas :many
SELECT DISTINCT app_id FROM item_page_delta;
