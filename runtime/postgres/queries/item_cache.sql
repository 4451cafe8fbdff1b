-- name: RegisterItemCache :exec
-- The row of an earlier connection of the same process goes: its cache is empty.
WITH earlier AS (DELETE FROM item_cache WHERE item_cache.id = sqlc.arg(earlier))
INSERT INTO item_cache (id, lease_ms) VALUES (sqlc.arg(id), sqlc.arg(lease_ms));

-- name: ItemCacheExists :one
SELECT EXISTS (SELECT FROM item_cache WHERE id = $1 AND NOT ended);

-- name: ItemCaches :many
SELECT * FROM item_cache;

-- name: EndItemCaches :exec
UPDATE item_cache SET ended = true WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: RemoveItemCaches :exec
DELETE FROM item_cache WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: Notify :exec
SELECT pg_notify(sqlc.arg(channel)::text, sqlc.arg(payload)::text);
