-- name: UseCapability :one
-- Takes one use of a capability for an upload that the same transaction has opened. No row: every use is
-- taken. The row of the account's usage is locked before that of a capability, here and wherever a use
-- is given back, so that no two transactions wait for each other in a circle.
WITH used AS (
    INSERT INTO capability_use (id, account_id, uses, expires_at) VALUES (sqlc.arg(id), sqlc.arg(account_id), 1, sqlc.arg(expires_at))
    ON CONFLICT (id) DO UPDATE SET uses = capability_use.uses + 1 WHERE capability_use.uses < sqlc.arg(count)::int
    RETURNING id
)
UPDATE upload SET capability_id = used.id FROM used WHERE upload.item_id = sqlc.arg(item_id)
RETURNING upload.item_id;

-- name: ReleaseCapabilities :exec
-- Gives back one use for each id, of uploads that the same transaction has ended.
WITH ended AS (
    SELECT released.id, count(*)::int AS uses FROM unnest(sqlc.arg(ids)::bytea[]) AS released (id) GROUP BY released.id
)
UPDATE capability_use SET uses = capability_use.uses - ended.uses FROM ended
WHERE capability_use.id = ended.id AND capability_use.id = ANY (sqlc.arg(ids)::bytea[]);

-- name: DeleteExpiredCapabilities :execrows
DELETE FROM capability_use WHERE id = ANY (ARRAY(
    SELECT expired.id FROM capability_use expired WHERE expired.expires_at < sqlc.arg(cutoff)::timestamptz ORDER BY expired.expires_at LIMIT sqlc.arg(batch)::int));
