-- Files that assistants request of a person (docs/decisions/0059).

-- name: InsertUploadRequest :execrows
-- No row: too many requests of the connection wait. One whose upload was given up waits again.
INSERT INTO upload_request (id, account_id, app_id, key_id, grant_id, connection, capability_id, capability, created_at, expires_at)
SELECT sqlc.arg(id)::uuid, sqlc.arg(account_id)::uuid, sqlc.arg(app_id)::uuid, sqlc.arg(key_id)::uuid, sqlc.narg(grant_id)::uuid, sqlc.arg(connection)::text,
    sqlc.arg(capability_id)::bytea, sqlc.arg(capability)::jsonb, sqlc.arg(created_at)::timestamptz, sqlc.arg(expires_at)::timestamptz
WHERE (SELECT count(*) FROM upload_request r LEFT JOIN capability_use u ON u.id = r.capability_id
    WHERE r.account_id = sqlc.arg(account_id)::uuid AND r.connection = sqlc.arg(connection)::text
    AND r.expires_at > sqlc.arg(created_at)::timestamptz AND coalesce(u.uses, 0) = 0) < sqlc.arg(most)::int;

-- name: LockUploadRequests :exec
-- Requests of one connection are counted one after the other.
SELECT pg_advisory_xact_lock(hashtextextended(sqlc.arg(connection)::text, 59));

-- name: UploadRequestOf :one
SELECT id FROM upload_request WHERE capability_id = $1;

-- name: FindUploadRequest :one
-- A request, and what has become of the last upload for it.
SELECT upload_request.*, (upload.item_id IS NOT NULL)::boolean AS running, (resumable_upload.item_id IS NOT NULL)::boolean AS resumable,
    coalesce(resumable_upload.received, 0)::bigint AS received, coalesce(resumable_upload.length, 0)::bigint AS length,
    (EXISTS (SELECT FROM stored_item WHERE stored_item.id = upload_request.item_id AND stored_item.deleted_at IS NULL))::boolean AS stored,
    (EXISTS (SELECT FROM quarantine WHERE quarantine.item_id = upload_request.item_id))::boolean AS quarantined,
    coalesce(capability_use.uses, 0)::int AS uses
FROM upload_request
LEFT JOIN upload ON upload.item_id = upload_request.item_id
LEFT JOIN resumable_upload ON resumable_upload.item_id = upload.item_id
LEFT JOIN capability_use ON capability_use.id = upload_request.capability_id
WHERE upload_request.id = $1;

-- name: BeginRequestedUpload :exec
-- Records the upload that has taken the use of the capability, in its transaction.
UPDATE upload_request SET item_id = sqlc.arg(item_id)::uuid WHERE capability_id = sqlc.arg(capability_id);

-- name: ExpireUploadRequests :execrows
DELETE FROM upload_request WHERE ctid = ANY (ARRAY (
    SELECT e.ctid FROM upload_request e WHERE e.expires_at < sqlc.arg(cutoff)::timestamptz ORDER BY e.expires_at, e.id LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED));
