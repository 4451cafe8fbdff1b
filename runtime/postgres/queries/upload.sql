-- name: OpenUploads :many
-- Notes the uploads of one account and reserves their bytes: all of them, or none
-- when the cap has no room for all. The answer names those that were noted.
WITH asked AS MATERIALIZED (
    SELECT unnest(sqlc.arg(item_ids)::uuid[]) AS item_id, unnest(sqlc.arg(app_ids)::uuid[]) AS app_id,
        unnest(sqlc.arg(bytes)::bigint[]) AS bytes, unnest(sqlc.arg(lease_ends)::timestamptz[]) AS lease_ends
), held AS (
    UPDATE account_usage SET bytes = account_usage.bytes + (SELECT sum(asked.bytes) FROM asked)
    FROM account
    WHERE account_usage.account_id = sqlc.arg(account_id)::uuid AND account.id = account_usage.account_id
      AND account_usage.bytes + (SELECT sum(asked.bytes) FROM asked) <= account.max_storage
    RETURNING account_usage.account_id
)
INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends)
SELECT asked.item_id, held.account_id, asked.app_id, asked.bytes, asked.lease_ends FROM asked, held
RETURNING item_id;

-- name: Reserve :one
-- Holds bytes for an upload when the cap has room, and extends its lease. The
-- answer is asynchronous: the row account_usage is shared by all uploads of the
-- account, and waiting for the disk with its lock held would make them queue. A
-- crash of the server loses this together with everything later, and the commit
-- settles the difference under the cap again.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), mine AS MATERIALIZED (
    SELECT upload.account_id FROM upload, relaxed WHERE upload.item_id = sqlc.arg(item_id) FOR UPDATE OF upload
), held AS (
    UPDATE account_usage SET bytes = account_usage.bytes + sqlc.arg(bytes)::bigint
    FROM mine JOIN account ON account.id = mine.account_id
    WHERE account_usage.account_id = mine.account_id AND account_usage.bytes + sqlc.arg(bytes)::bigint <= account.max_storage
    RETURNING 1
)
UPDATE upload SET reserved = reserved + sqlc.arg(bytes)::bigint, lease_ends = sqlc.arg(lease_ends)
FROM held
WHERE upload.item_id = sqlc.arg(item_id)
RETURNING upload.reserved;

-- name: Headroom :one
-- How many bytes the account can still hold; negative when the cap was lowered below what it holds.
SELECT (account.max_storage - account_usage.bytes)::bigint AS bytes, account.max_storage FROM account JOIN account_usage ON account_usage.account_id = account.id WHERE account.id = $1;

-- name: CommitUploads :many
-- The usual commit: what was reserved is what is stored, so the account's hold stays
-- as it is. The answer names the items that were made; any other is settled alone.
WITH asked AS MATERIALIZED (
    SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(file_names)::text[]) AS file_name, unnest(sqlc.arg(accesses)::text[]) AS access,
        unnest(sqlc.arg(captions)::text[]) AS caption, unnest(sqlc.arg(groups)::text[]) AS group_label, unnest(sqlc.arg(objects)::text[]) AS objects,
        unnest(sqlc.arg(bytes)::bigint[]) AS bytes, unnest(sqlc.arg(created_at)::timestamptz[]) AS created_at
), done AS (
    DELETE FROM upload USING asked WHERE upload.item_id = asked.id AND upload.reserved = asked.bytes
    RETURNING upload.item_id, upload.account_id, upload.app_id
)
INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at)
SELECT asked.id, done.account_id, done.app_id, asked.file_name, asked.access, asked.caption, asked.group_label, asked.objects::jsonb, asked.bytes, asked.created_at
FROM asked JOIN done ON done.item_id = asked.id
RETURNING id;

-- name: TakeUpload :one
DELETE FROM upload WHERE item_id = $1 RETURNING *;

-- name: SettleHold :execrows
-- Changes the account's hold by delta; growth only under the cap.
UPDATE account_usage SET bytes = account_usage.bytes + sqlc.arg(delta)::bigint
FROM account
WHERE account_usage.account_id = $1 AND account.id = $1
  AND (sqlc.arg(delta)::bigint <= 0 OR account_usage.bytes + sqlc.arg(delta)::bigint <= account.max_storage);

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

-- name: BucketOf :one
SELECT bucket FROM account WHERE id = $1;
