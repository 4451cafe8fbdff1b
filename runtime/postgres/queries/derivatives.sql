-- Derivatives that are made after the upload was answered (docs/decisions/0044). Locks are taken in the order of a deletion: the item, the
-- usage, the totals.

-- name: PendingItem :one
-- An item whose derivatives are to be made. resting: nothing is made for its account at present; claimed: a process makes them.
SELECT sqlc.embed(item), account.bucket, account.keep_location, (account.closed_at IS NOT NULL OR account.suspended)::boolean AS resting,
    EXISTS (SELECT FROM work WHERE work.kind = 'derivatives' AND work.key = item.id AND work.claim IS NOT NULL AND work.due_at > now()) AS claimed
FROM item JOIN account ON account.id = item.account_id WHERE item.account_id = $1 AND item.id = $2 AND item.derivatives_state = 1;

-- name: LockPending :many
SELECT item.id FROM item WHERE item.account_id = $1 AND item.id = $2 AND item.derivatives_state = 1 FOR NO KEY UPDATE;

-- name: FinishDerivatives :one
-- Adds the derivatives that a writer has stored to an item, and takes their bytes under the storage cap. pending is false if they were
-- made already, or the item is gone; finished is false also if there is no room, or the writer has ended. Without objects there is
-- nothing to take.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), writing AS MATERIALIZED (
    SELECT w.number FROM timeout_set, upload_writer w WHERE w.number = sqlc.arg(writer)::bigint AND w.fence = sqlc.arg(fence)::bigint
        AND w.instance_id = sqlc.arg(own)::uuid AND w.account_id = sqlc.arg(account_id)::uuid AND w.ended_at IS NULL
    FOR SHARE OF w
), pending AS MATERIALIZED (
    SELECT i.account_id, i.id FROM timeout_set, item i WHERE i.account_id = sqlc.arg(account_id)::uuid AND i.id = sqlc.arg(item_id)::uuid AND i.derivatives_state = 1
    FOR NO KEY UPDATE OF i
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM pending JOIN account_usage ON account_usage.account_id = pending.account_id FOR UPDATE OF account_usage
), increased AS (
    UPDATE account_usage SET bytes = account_usage.bytes + sqlc.arg(bytes)::bigint
    FROM locked JOIN account ON account.id = locked.account_id
    WHERE account_usage.account_id = locked.account_id AND account_usage.bytes + sqlc.arg(bytes)::bigint <= account.max_storage
        AND EXISTS (SELECT FROM writing)
    RETURNING account_usage.account_id
), changed AS (
    UPDATE item SET objects = item.objects || sqlc.arg(objects)::text::jsonb, bytes = item.bytes + sqlc.arg(bytes)::bigint, derivatives_state = 2, version = item.version + 1,
        width = coalesce(sqlc.narg(width)::int, item.width), height = coalesce(sqlc.narg(height)::int, item.height),
        placeholder = coalesce(sqlc.narg(placeholder)::bytea, item.placeholder), dominant_color = coalesce(sqlc.narg(dominant_color)::text, item.dominant_color),
        capture = coalesce(nullif(sqlc.arg(capture)::text, '')::jsonb, item.capture)
    WHERE item.account_id = sqlc.arg(account_id)::uuid AND item.id = sqlc.arg(item_id)::uuid
        AND (EXISTS (SELECT FROM increased) OR sqlc.arg(bytes)::bigint = 0 AND EXISTS (SELECT FROM locked))
    RETURNING item.account_id, item.app_id, item.id, item.version, item.group_label, item.sealed_at
), total AS (
    UPDATE app_total SET bytes = app_total.bytes + sqlc.arg(bytes)::bigint
    FROM changed WHERE changed.sealed_at IS NOT NULL AND app_total.app_id = changed.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor, fields)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.updated', c.group_label, sqlc.arg(actor)::text, sqlc.arg(fields)::text[]
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT EXISTS (SELECT FROM pending) AS pending, EXISTS (SELECT FROM changed) AS finished, EXISTS (SELECT FROM writing) AS writing;
