-- A statement that changes a batch of rows names them by a range of a key here, and by an array of their keys in the other files. A
-- join with the batch is planned by the size of the table: a plan that was made while the table was small, and kept, compared
-- every row of it with every row of the batch.

-- name: ClosedAccountOfObject :one
SELECT * FROM account WHERE namespace = $1 AND name = $2 AND closed_at IS NOT NULL AND object_uid = $3 ORDER BY closed_at DESC LIMIT 1;

-- name: SealedItems :one
-- Those that were deleted and can be restored are included.
SELECT coalesce(sum(public_items + private_items + deleted_items), 0)::bigint FROM app_total WHERE account_id = $1;

-- name: CloseAccount :one
UPDATE account SET closed_at = now(), erase_after = now() + make_interval(secs => sqlc.narg(erase_after_seconds)::float8)
WHERE id = $1 RETURNING *;

-- name: BeginErasure :one
-- Decides, once, that the media of a closed account is deleted.
UPDATE account SET erasing_at = now()
WHERE id = $1 AND closed_at IS NOT NULL AND erase_after <= now() AND erasing_at IS NULL
RETURNING *;

-- name: GetAccount :one
SELECT * FROM account WHERE id = $1;

-- name: SetBucketRemoved :exec
UPDATE account SET bucket_removed_at = now() WHERE id = $1 AND erasing_at IS NOT NULL AND bucket_removed_at IS NULL;

-- name: AbandonErasure :one
-- Keeps the media. The rows are complete while the bucket was not removed.
UPDATE account SET erase_after = NULL, erasing_at = NULL WHERE id = $1 AND closed_at IS NOT NULL AND bucket_removed_at IS NULL
RETURNING *;

-- name: ItemsToErase :one
SELECT ((SELECT coalesce(sum(public_items + private_items + deleted_items), 0) FROM app_total WHERE app_total.account_id = $1)
    + (SELECT count(*) FROM item WHERE item.account_id = $1 AND sealed_at IS NULL))::bigint;

-- name: EraseItems :one
-- Deletes a batch of items in the order of their ids and takes them off the totals, which show
-- the progress. Every deletion of rows requires that the bucket was removed: see the column.
WITH batch AS MATERIALIZED (
    SELECT i.id FROM stored_item i
    WHERE i.account_id = (SELECT account.id FROM account WHERE account.id = sqlc.arg(account_id) AND bucket_removed_at IS NOT NULL)
      AND i.id > sqlc.arg(after)::uuid
    ORDER BY i.id LIMIT sqlc.arg(batch)::int
), deleted AS (
    DELETE FROM stored_item WHERE stored_item.account_id = sqlc.arg(account_id)
        AND stored_item.id > sqlc.arg(after)::uuid AND stored_item.id <= (SELECT batch.id FROM batch ORDER BY batch.id DESC LIMIT 1)
    RETURNING stored_item.id, stored_item.app_id, stored_item.access, stored_item.bytes, stored_item.sealed_at, stored_item.deleted_at
), counted AS (
    SELECT app_id, count(*) FILTER (WHERE sealed_at IS NOT NULL AND access = 'public') AS public_items, count(*) FILTER (WHERE sealed_at IS NOT NULL AND access = 'private') AS private_items,
        coalesce(sum(bytes) FILTER (WHERE sealed_at IS NOT NULL), 0)::bigint AS bytes,
        count(*) FILTER (WHERE deleted_at IS NOT NULL) AS deleted_items, coalesce(sum(bytes) FILTER (WHERE deleted_at IS NOT NULL), 0)::bigint AS deleted_bytes
    FROM deleted WHERE sealed_at IS NOT NULL OR deleted_at IS NOT NULL GROUP BY app_id
), totals AS (
    UPDATE app_total SET public_items = app_total.public_items - counted.public_items,
        private_items = app_total.private_items - counted.private_items, bytes = app_total.bytes - counted.bytes,
        deleted_items = app_total.deleted_items - counted.deleted_items, deleted_bytes = app_total.deleted_bytes - counted.deleted_bytes
    FROM counted WHERE app_total.app_id = counted.app_id AND app_total.slot = 0 AND app_total.app_id = ANY (ARRAY(SELECT counted.app_id FROM counted))
)
SELECT count(*)::int AS erased, coalesce((array_agg(id ORDER BY id DESC))[1], sqlc.arg(after)::uuid)::uuid AS last FROM deleted;

-- name: AppsToErase :many
SELECT app.id FROM app JOIN account ON account.id = app.account_id AND account.bucket_removed_at IS NOT NULL WHERE app.account_id = $1;

-- name: ErasePageDeltas :one
WITH batch AS MATERIALIZED (
    SELECT d.id FROM item_page_delta d WHERE d.app_id = sqlc.arg(app_id) AND d.id > sqlc.arg(after)::uuid
    ORDER BY d.id LIMIT sqlc.arg(batch)::int
), deleted AS (
    DELETE FROM item_page_delta WHERE app_id = sqlc.arg(app_id) AND id > sqlc.arg(after)::uuid AND id <= (SELECT batch.id FROM batch ORDER BY batch.id DESC LIMIT 1)
)
SELECT count(*)::int AS erased, coalesce((array_agg(id ORDER BY id DESC))[1], sqlc.arg(after)::uuid)::uuid AS last FROM batch;

-- name: EraseGroupTotals :one
WITH batch AS MATERIALIZED (
    SELECT g.group_label FROM group_total g WHERE g.app_id = sqlc.arg(app_id) AND g.group_label > sqlc.arg(after)::text
    ORDER BY g.group_label LIMIT sqlc.arg(batch)::int
), deleted AS (
    DELETE FROM group_total WHERE app_id = sqlc.arg(app_id) AND group_label > sqlc.arg(after)::text AND group_label <= (SELECT max(batch.group_label) FROM batch)
)
SELECT count(*)::int AS erased, coalesce(max(group_label), sqlc.arg(after)::text)::text AS last FROM batch;

-- name: EraseRemovals :one
WITH batch AS MATERIALIZED (
    SELECT r.id FROM object_removal r
    WHERE r.account_id = (SELECT account.id FROM account WHERE account.id = sqlc.arg(account_id) AND bucket_removed_at IS NOT NULL)
      AND r.id > sqlc.arg(after)::bigint
    ORDER BY r.id LIMIT sqlc.arg(batch)::int
), deleted AS (
    DELETE FROM object_removal WHERE object_removal.account_id = sqlc.arg(account_id) AND object_removal.id > sqlc.arg(after)::bigint AND object_removal.id <= (SELECT max(batch.id) FROM batch)
)
SELECT count(*)::int AS erased, coalesce(max(id), sqlc.arg(after)::bigint)::bigint AS last FROM batch;

-- name: EraseEvents :one
WITH batch AS MATERIALIZED (
    SELECT j.epoch, j.xid, j.id FROM journal j
    WHERE j.account_id = (SELECT account.id FROM account WHERE account.id = sqlc.arg(account_id) AND bucket_removed_at IS NOT NULL)
      AND (j.epoch, j.xid, j.id) > (sqlc.arg(epoch)::bigint, sqlc.arg(xid)::bigint, sqlc.arg(id)::bigint)
    ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(batch)::int
), last AS MATERIALIZED (
    SELECT batch.epoch, batch.xid, batch.id FROM batch ORDER BY batch.epoch DESC, batch.xid DESC, batch.id DESC LIMIT 1
), deleted AS (
    DELETE FROM journal WHERE journal.account_id = sqlc.arg(account_id)
        AND (journal.epoch, journal.xid, journal.id) > (sqlc.arg(epoch)::bigint, sqlc.arg(xid)::bigint, sqlc.arg(id)::bigint)
        AND (journal.epoch, journal.xid, journal.id) <= ((SELECT last.epoch FROM last), (SELECT last.xid FROM last), (SELECT last.id FROM last))
)
SELECT (SELECT count(*) FROM batch)::int AS erased, coalesce((SELECT last.epoch FROM last), 0)::bigint AS epoch,
    coalesce((SELECT last.xid FROM last), 0)::bigint AS xid, coalesce((SELECT last.id FROM last), 0)::bigint AS id;

-- name: EraseUploads :execrows
DELETE FROM upload WHERE ctid = ANY (ARRAY (
    SELECT u.ctid FROM upload u JOIN account ON account.id = u.account_id AND account.bucket_removed_at IS NOT NULL
    WHERE u.account_id = sqlc.arg(account_id) LIMIT sqlc.arg(batch)::int));

-- name: EraseResumableUploads :execrows
DELETE FROM resumable_upload WHERE ctid = ANY (ARRAY (
    SELECT r.ctid FROM resumable_upload r JOIN account ON account.id = r.account_id AND account.bucket_removed_at IS NOT NULL
    WHERE r.account_id = sqlc.arg(account_id) LIMIT sqlc.arg(batch)::int));

-- name: EraseFetches :execrows
DELETE FROM fetch_job WHERE ctid = ANY (ARRAY (
    SELECT f.ctid FROM fetch_job f WHERE f.app_id = ANY (ARRAY(
        SELECT app.id FROM app JOIN account ON account.id = app.account_id AND account.bucket_removed_at IS NOT NULL WHERE app.account_id = sqlc.arg(account_id)))
    LIMIT sqlc.arg(batch)::int));

-- name: EraseOAuthTokens :execrows
DELETE FROM oauth_token WHERE ctid = ANY (ARRAY (
    SELECT t.ctid FROM oauth_token t WHERE t.grant_id = ANY (ARRAY(
        SELECT g.id FROM oauth_grant g JOIN account ON account.id = g.account_id AND account.bucket_removed_at IS NOT NULL WHERE g.account_id = sqlc.arg(account_id)))
    LIMIT sqlc.arg(batch)::int));

-- name: EraseOAuthGrants :execrows
DELETE FROM oauth_grant WHERE ctid = ANY (ARRAY (
    SELECT g.ctid FROM oauth_grant g JOIN account ON account.id = g.account_id AND account.bucket_removed_at IS NOT NULL
    WHERE g.account_id = sqlc.arg(account_id) LIMIT sqlc.arg(batch)::int));

-- name: EraseKeys :execrows
DELETE FROM api_key WHERE ctid = ANY (ARRAY (
    SELECT k.ctid FROM api_key k JOIN account ON account.id = k.account_id AND account.bucket_removed_at IS NOT NULL
    WHERE k.account_id = sqlc.arg(account_id) LIMIT sqlc.arg(batch)::int));

-- name: EraseApps :execrows
DELETE FROM app WHERE ctid = ANY (ARRAY (
    SELECT app.ctid FROM app JOIN account ON account.id = app.account_id AND account.bucket_removed_at IS NOT NULL
    WHERE app.account_id = sqlc.arg(account_id) LIMIT sqlc.arg(batch)::int));

-- name: EraseAccount :execrows
DELETE FROM account WHERE id = $1 AND bucket_removed_at IS NOT NULL;
