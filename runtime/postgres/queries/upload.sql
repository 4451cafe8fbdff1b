-- name: InsertUpload :exec
INSERT INTO upload (item_id, account_id, app_id, lease_ends) VALUES ($1, $2, $3, $4);

-- name: Reserve :one
-- Holds bytes for an upload when the cap has room, and extends its lease. The
-- answer is asynchronous: the row account_hold is shared by all uploads of the
-- account, and waiting for the disk with its lock held would make them queue. A
-- crash of the server loses this together with everything later, and the commit
-- settles the difference under the cap again.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), mine AS MATERIALIZED (
    SELECT upload.account_id FROM upload, relaxed WHERE upload.item_id = sqlc.arg(item_id) FOR UPDATE OF upload
), held AS (
    UPDATE account_hold SET bytes = account_hold.bytes + sqlc.arg(bytes)::bigint
    FROM mine JOIN account ON account.id = mine.account_id
    WHERE account_hold.account_id = mine.account_id AND account_hold.bytes + sqlc.arg(bytes)::bigint <= account.max_storage
    RETURNING 1
)
UPDATE upload SET reserved = reserved + sqlc.arg(bytes)::bigint, lease_ends = sqlc.arg(lease_ends)
FROM held
WHERE upload.item_id = sqlc.arg(item_id)
RETURNING upload.reserved;

-- name: Headroom :one
-- How many bytes the account can still hold; negative when the cap was lowered below what it holds.
SELECT (account.max_storage - account_hold.bytes)::bigint AS bytes, account.max_storage FROM account JOIN account_hold ON account_hold.account_id = account.id WHERE account.id = $1;

-- name: CommitExactUpload :execrows
-- The usual commit: what was reserved is what is stored, so the account's hold stays as it is.
WITH done AS (
    DELETE FROM upload WHERE upload.item_id = sqlc.arg(id) AND upload.reserved = sqlc.arg(bytes)::bigint RETURNING account_id, app_id
)
INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at)
SELECT sqlc.arg(id), done.account_id, done.app_id, sqlc.arg(file_name), sqlc.arg(access), sqlc.arg(caption), sqlc.arg(group_label), sqlc.arg(objects), sqlc.arg(bytes), sqlc.arg(created_at)
FROM done;

-- name: TakeUpload :one
DELETE FROM upload WHERE item_id = $1 RETURNING *;

-- name: SettleHold :execrows
-- Changes the account's hold by delta; growth only under the cap.
UPDATE account_hold SET bytes = account_hold.bytes + sqlc.arg(delta)::bigint
FROM account
WHERE account_hold.account_id = $1 AND account.id = $1
  AND (sqlc.arg(delta)::bigint <= 0 OR account_hold.bytes + sqlc.arg(delta)::bigint <= account.max_storage);

-- name: InsertItem :exec
INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: ExpiredUploads :many
SELECT upload.*, account.bucket FROM upload JOIN account ON account.id = upload.account_id
WHERE upload.lease_ends < $1 ORDER BY upload.lease_ends LIMIT $2 FOR UPDATE OF upload SKIP LOCKED;

-- name: DeleteUpload :exec
DELETE FROM upload WHERE item_id = $1;

-- name: ItemExists :one
SELECT EXISTS (SELECT FROM item WHERE id = $1);
