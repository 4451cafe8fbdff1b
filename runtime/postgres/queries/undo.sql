-- A tombstone is a deleted item that can be restored (docs/decisions/0028). Deleting and restoring change the
-- row and the totals; the bytes stay in account_usage. Only EndTombstones deletes the row. It locks
-- account_usage first, and never waits for a row of stored_item after that.

-- name: TombstoneItem :one
-- Deletes a sealed item so that it can be restored. One conditional update decides. Its renditions end by a trigger, which
-- changes the usage: it is locked between the item and the totals, as in DeleteItem.
WITH chosen AS MATERIALIZED (
    SELECT i.account_id, i.id FROM stored_item i WHERE i.app_id = $1 AND i.id = $2 AND i.deleted_at IS NULL AND i.sealed_at IS NOT NULL FOR NO KEY UPDATE
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM chosen JOIN account_usage ON account_usage.account_id = chosen.account_id
    FOR UPDATE OF account_usage
), deleted AS (
    UPDATE stored_item SET sealed_at = NULL, was_sealed_at = stored_item.sealed_at, deleted_at = sqlc.arg(now)::timestamptz, restorable_until = sqlc.arg(restorable_until)::timestamptz,
        version = stored_item.version + 1
    FROM chosen JOIN locked ON locked.account_id = chosen.account_id
    WHERE stored_item.account_id = chosen.account_id AND stored_item.id = chosen.id AND stored_item.deleted_at IS NULL AND stored_item.sealed_at IS NOT NULL
    RETURNING stored_item.id, stored_item.account_id, stored_item.app_id, stored_item.version, stored_item.group_label, stored_item.access, stored_item.bytes
), total AS (
    UPDATE app_total SET public_items = public_items - (deleted.access = 'public')::int, private_items = private_items - (deleted.access = 'private')::int,
        bytes = app_total.bytes - deleted.bytes, deleted_items = deleted_items + 1, deleted_bytes = deleted_bytes + deleted.bytes
    FROM deleted WHERE app_total.app_id = deleted.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), grouped AS (
    INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
    SELECT app_id, group_label, sqlc.arg(slot)::smallint % 4, -(access = 'public')::int, -(access = 'private')::int
    FROM deleted WHERE group_label <> ''
    ON CONFLICT (app_id, group_label, slot) DO UPDATE SET
        public_items = group_total.public_items + excluded.public_items, private_items = group_total.private_items + excluded.private_items
), delta AS (
    INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT app_id, id, group_label, -1, access = 'public' FROM deleted
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.deleted', c.group_label, sqlc.arg(actor)::text
    FROM deleted c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT id FROM deleted;

-- name: RestoreItem :one
-- Returns what it has restored: another request may delete the item again before it could be read.
WITH changed AS (
    UPDATE stored_item SET sealed_at = stored_item.was_sealed_at, was_sealed_at = NULL, deleted_at = NULL, restorable_until = NULL, version = stored_item.version + 1
    WHERE stored_item.app_id = $1 AND stored_item.id = $2 AND stored_item.deleted_at IS NOT NULL
    RETURNING stored_item.*
), total AS (
    UPDATE app_total SET public_items = public_items + (changed.access = 'public')::int, private_items = private_items + (changed.access = 'private')::int,
        bytes = app_total.bytes + changed.bytes, deleted_items = deleted_items - 1, deleted_bytes = deleted_bytes - changed.bytes
    FROM changed WHERE app_total.app_id = changed.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), grouped AS (
    INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
    SELECT app_id, group_label, sqlc.arg(slot)::smallint % 4, (access = 'public')::int, (access = 'private')::int
    FROM changed WHERE group_label <> ''
    ON CONFLICT (app_id, group_label, slot) DO UPDATE SET
        public_items = group_total.public_items + excluded.public_items, private_items = group_total.private_items + excluded.private_items
), delta AS (
    INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT app_id, id, group_label, 1, access = 'public' FROM changed
), eager AS (
    INSERT INTO work (kind, key, account_id) SELECT 'picture', changed.id, changed.account_id FROM changed
    WHERE item_file_type(changed.objects) LIKE 'image/%' AND EXISTS (SELECT FROM rendition_eager e WHERE e.account_id = changed.account_id AND e.active)
    ON CONFLICT (kind, key) DO UPDATE SET claim = NULL, instance_id = NULL, due_at = now(), attempts = 0, failure = ''
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.restored', c.group_label, sqlc.arg(actor)::text
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT * FROM changed;

-- name: TombstoneOf :one
SELECT restorable_until FROM stored_item WHERE app_id = $1 AND id = $2 AND deleted_at IS NOT NULL;

-- name: TombstoneSince :one
-- Finds the tombstone of a delete whose answer was lost.
SELECT id FROM stored_item WHERE app_id = $1 AND id = $2 AND deleted_at = sqlc.arg(now)::timestamptz;

-- name: Tombstone :one
SELECT * FROM stored_item WHERE app_id = $1 AND id = $2 AND deleted_at IS NOT NULL;

-- name: ListTombstones :many
SELECT * FROM stored_item WHERE app_id = $1 AND deleted_at IS NOT NULL ORDER BY deleted_at DESC, id DESC LIMIT sqlc.arg(page_size)::bigint OFFSET sqlc.arg(skip)::bigint;

-- name: CountTombstones :one
SELECT coalesce(sum(deleted_items), 0)::bigint FROM app_total WHERE app_id = $1;

-- name: DueTombstones :many
SELECT account_id, id FROM stored_item WHERE deleted_at IS NOT NULL AND restorable_until < sqlc.arg(cutoff)::timestamptz ORDER BY restorable_until LIMIT sqlc.arg(batch)::int;

-- name: LockUsage :one
-- The transaction ends renditions or tombstones in batches: their plans are made for the tables as they are then.
WITH planned AS MATERIALIZED (
    SELECT set_config('plan_cache_mode', 'force_custom_plan', true)
)
SELECT account_usage.account_id FROM planned, account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE OF account_usage;

-- name: LockUsageWithin :one
-- LockUsage that bounds the wait for this lock and those of later statements of the transaction.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true), set_config('plan_cache_mode', 'force_custom_plan', true)
)
SELECT account_usage.account_id FROM timeout_set, account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE OF account_usage;

-- name: Room :one
SELECT (account.max_storage - account_usage.bytes)::bigint AS free, account_usage.rendition_bytes,
    (SELECT coalesce(sum(app_total.deleted_bytes), 0) FROM app_total WHERE app_total.account_id = account.id)::bigint AS deleted
FROM account JOIN account_usage ON account_usage.account_id = account.id WHERE account.id = $1;

-- name: OldestTombstones :many
SELECT id, bytes, deleted_at::timestamptz AS deleted_at FROM stored_item
WHERE account_id = $1 AND deleted_at IS NOT NULL AND (deleted_at, id) > (sqlc.arg(after)::timestamptz, sqlc.arg(after_id)::uuid)
ORDER BY deleted_at, id LIMIT sqlc.arg(batch)::int;

-- name: EndTombstones :many
-- Deletes tombstones, releases their bytes, and queues the removal of their objects. A tombstone that
-- was restored meanwhile stays, and so does one that another transaction has locked: the result does not
-- contain it. The rows of the usage are locked in the order of the accounts, as in OpenUploads.
WITH chosen AS MATERIALIZED (
    SELECT unnest(sqlc.arg(account_ids)::uuid[]) AS account_id, unnest(sqlc.arg(ids)::uuid[]) AS id
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM account_usage WHERE account_usage.account_id IN (SELECT chosen.account_id FROM chosen)
    ORDER BY account_usage.account_id FOR UPDATE
), free AS MATERIALIZED (
    SELECT i.account_id, i.id FROM locked JOIN chosen ON chosen.account_id = locked.account_id
    JOIN stored_item i ON i.account_id = chosen.account_id AND i.id = chosen.id
    WHERE i.id = ANY (sqlc.arg(ids)::uuid[]) AND i.deleted_at IS NOT NULL AND (sqlc.narg(cutoff)::timestamptz IS NULL OR i.restorable_until < sqlc.narg(cutoff)::timestamptz)
    FOR UPDATE OF i SKIP LOCKED
), ended AS (
    DELETE FROM stored_item USING free WHERE stored_item.account_id = free.account_id AND stored_item.id = free.id AND stored_item.id = ANY (sqlc.arg(ids)::uuid[])
    RETURNING stored_item.id, stored_item.account_id, stored_item.app_id, stored_item.version, stored_item.group_label, stored_item.bytes, stored_item.objects
), released AS (
    UPDATE account_usage SET bytes = account_usage.bytes - freed.bytes
    FROM (SELECT ended.account_id, sum(ended.bytes)::bigint AS bytes FROM ended GROUP BY ended.account_id) AS freed WHERE account_usage.account_id = freed.account_id
), total AS (
    UPDATE app_total SET deleted_items = app_total.deleted_items - gone.items, deleted_bytes = app_total.deleted_bytes - gone.bytes
    FROM (SELECT ended.app_id, count(*) AS items, sum(ended.bytes)::bigint AS bytes FROM ended GROUP BY ended.app_id) AS gone
    WHERE app_total.app_id = gone.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), queued AS (
    INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before, request)
    SELECT ended.account_id, account.bucket, (SELECT array_agg(o.object ->> 'key') FROM jsonb_array_elements(ended.objects) AS o (object))::text[], false,
        coalesce(sqlc.narg(not_before)::timestamptz, now()), sqlc.narg(request)::uuid
    FROM ended JOIN account ON account.id = ended.account_id
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version + 1, 'media.purged', c.group_label, sqlc.arg(actor)::text
    FROM ended c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT ended.id, ended.bytes FROM ended;

-- name: PostponeTombstones :exec
-- An item that was restored after the backup is a tombstone again: it has its full time again.
UPDATE stored_item SET restorable_until = now() + (restorable_until - deleted_at) WHERE deleted_at IS NOT NULL AND restorable_until < now() + (restorable_until - deleted_at);
