-- name: OpenUploads :many
-- Opens uploads of any accounts and reserves their bytes: all uploads of an account, or none of it
-- if they exceed its storage cap. Returns the opened uploads. The rows of the usage are locked in
-- the order of the accounts, so that two of these statements never wait for each other in a circle.
-- A process whose lease has ended is not recorded: only the lease of the upload bounds it then.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), requested AS MATERIALIZED (
    SELECT unnest(sqlc.arg(item_ids)::uuid[]) AS item_id, unnest(sqlc.arg(account_ids)::uuid[]) AS account_id, unnest(sqlc.arg(app_ids)::uuid[]) AS app_id,
        unnest(sqlc.arg(bytes)::bigint[]) AS bytes, unnest(sqlc.arg(lease_ends)::timestamptz[]) AS lease_ends
), wanted AS MATERIALIZED (
    SELECT requested.account_id, sum(requested.bytes)::bigint AS bytes FROM requested GROUP BY requested.account_id
), locked AS MATERIALIZED (
    SELECT account_usage.account_id, wanted.bytes FROM timeout_set, wanted JOIN account_usage ON account_usage.account_id = wanted.account_id
    ORDER BY account_usage.account_id FOR UPDATE OF account_usage
), increased AS (
    UPDATE account_usage SET bytes = account_usage.bytes + locked.bytes
    FROM locked JOIN account ON account.id = locked.account_id
    WHERE account_usage.account_id = locked.account_id AND account_usage.bytes + locked.bytes <= account.max_storage
    RETURNING account_usage.account_id
)
INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends, instance_id)
SELECT requested.item_id, increased.account_id, requested.app_id, requested.bytes, requested.lease_ends,
    (SELECT id FROM runtime_instance WHERE id = sqlc.arg(instance_id)::uuid AND runtime_instance.lease_ends >= now())
FROM requested JOIN increased ON increased.account_id = requested.account_id
RETURNING item_id;

-- name: Reserve :one
-- Reserves bytes for an upload if they fit the storage cap, and extends its lease. The commit
-- is asynchronous: all uploads of the account share the row of account_usage, and would queue
-- behind a disk flush that holds its lock. A crash of the server loses the reservation
-- together with everything later; the commit of the upload adjusts the usage under the cap.
WITH asynchronous AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), running AS MATERIALIZED (
    SELECT upload.account_id FROM upload, asynchronous WHERE upload.item_id = sqlc.arg(item_id) FOR UPDATE OF upload
), increased AS (
    UPDATE account_usage SET bytes = account_usage.bytes + sqlc.arg(bytes)::bigint
    FROM running JOIN account ON account.id = running.account_id
    WHERE account_usage.account_id = running.account_id AND account_usage.bytes + sqlc.arg(bytes)::bigint <= account.max_storage
    RETURNING 1
)
UPDATE upload SET reserved = reserved + sqlc.arg(bytes)::bigint, lease_ends = sqlc.arg(lease_ends)
FROM increased
WHERE upload.item_id = sqlc.arg(item_id)
RETURNING upload.reserved;

-- name: AvailableBytes :one
-- The bytes up to the storage cap, which an upload can have: renditions and tombstones end for it. Negative if the cap was
-- lowered below the usage.
SELECT (account.max_storage - account_usage.bytes + account_usage.rendition_bytes + (SELECT coalesce(sum(app_total.deleted_bytes), 0) FROM app_total WHERE app_total.account_id = account.id))::bigint AS bytes, account.max_storage FROM account JOIN account_usage ON account_usage.account_id = account.id WHERE account.id = $1;

-- name: CommitUploads :many
-- Commits the uploads whose reservation equals the stored bytes, so that the usage does not
-- change. Returns their items; the reservation of every other upload is changed first.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), requested AS MATERIALIZED (
    SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(file_names)::text[]) AS file_name, unnest(sqlc.arg(accesses)::text[]) AS access,
        unnest(sqlc.arg(captions)::text[]) AS caption, unnest(sqlc.arg(groups)::text[]) AS group_label, unnest(sqlc.arg(objects)::text[]) AS objects,
        unnest(sqlc.arg(bytes)::bigint[]) AS bytes, unnest(sqlc.arg(created_at)::timestamptz[]) AS created_at, unnest(sqlc.arg(metadata)::text[]) AS metadata,
        unnest(sqlc.arg(widths)::int[]) AS width, unnest(sqlc.arg(heights)::int[]) AS height, unnest(sqlc.arg(placeholders)::bytea[]) AS placeholder, unnest(sqlc.arg(dominant_colors)::text[]) AS dominant_color,
        unnest(sqlc.arg(refs)::text[]) AS ref, unnest(sqlc.arg(durations)::bigint[]) AS duration_ms, unnest(sqlc.arg(pages)::int[]) AS pages, unnest(sqlc.arg(derivatives)::smallint[]) AS derivatives_state, unnest(sqlc.arg(gates)::smallint[]) AS gate_state, unnest(sqlc.arg(captures)::text[]) AS capture, unnest(sqlc.arg(actors)::text[]) AS actor
), done AS (
    DELETE FROM upload USING requested, timeout_set WHERE upload.item_id = ANY (sqlc.arg(ids)::uuid[]) AND upload.item_id = requested.id AND upload.reserved = requested.bytes
    RETURNING upload.item_id, upload.account_id, upload.app_id
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT done.account_id, done.app_id, done.item_id, 1, 'media.uploaded', requested.group_label, requested.actor
    FROM done JOIN requested ON requested.id = done.item_id JOIN account a ON a.id = done.account_id AND a.journal_retention IS NOT NULL
)
INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at,
    metadata, width, height, placeholder, duration_ms, pages, ref, dominant_color, derivatives_state, gate_state, capture, facts_version)
SELECT requested.id, done.account_id, done.app_id, requested.file_name, requested.access, requested.caption, requested.group_label, requested.objects::jsonb, requested.bytes, requested.created_at,
    requested.metadata::jsonb, nullif(requested.width, 0), nullif(requested.height, 0), requested.placeholder, nullif(requested.duration_ms, 0), nullif(requested.pages, 0), requested.ref, nullif(requested.dominant_color, ''), coalesce(requested.derivatives_state, 0), coalesce(requested.gate_state, 0), nullif(requested.capture, '')::jsonb, 3
FROM requested JOIN done ON done.item_id = requested.id
RETURNING id;

-- name: LockUpload :one
SELECT account_id FROM upload WHERE item_id = $1 FOR UPDATE;

-- name: ReserveExactly :one
-- Sets what an upload has reserved, and returns what it had.
WITH running AS MATERIALIZED (
    SELECT account_id, reserved FROM upload WHERE upload.item_id = $1 FOR UPDATE
)
UPDATE upload SET reserved = sqlc.arg(bytes)::bigint FROM running WHERE upload.item_id = $1
RETURNING running.account_id, running.reserved;

-- name: DeleteUploadReturning :one
DELETE FROM upload WHERE item_id = $1 RETURNING *;

-- name: AdjustUsage :execrows
-- Changes the usage by delta; it increases up to the storage cap only.
UPDATE account_usage SET bytes = account_usage.bytes + sqlc.arg(delta)::bigint
FROM account
WHERE account_usage.account_id = $1 AND account.id = $1
  AND (sqlc.arg(delta)::bigint <= 0 OR account_usage.bytes + sqlc.arg(delta)::bigint <= account.max_storage);

-- name: ExpiredUploads :many
-- An upload of before a restore may have become an item that the restore lost: its objects stay.
SELECT upload.item_id, upload.account_id, account.bucket, upload.capability_id, coalesce(upload.lease_ends <= (SELECT resumed_at FROM installation), false)::boolean AS keep_objects FROM upload JOIN account ON account.id = upload.account_id
WHERE upload.lease_ends < $1 ORDER BY upload.lease_ends LIMIT $2 FOR UPDATE OF upload SKIP LOCKED;

-- name: UploadsOfDeadRuntimes :many
-- As above, of processes whose lease has ended.
SELECT upload.item_id, upload.account_id, account.bucket, upload.capability_id, coalesce(upload.opened_at <= (SELECT resumed_at FROM installation), false)::boolean AS keep_objects FROM upload JOIN account ON account.id = upload.account_id
JOIN runtime_instance ON runtime_instance.id = upload.instance_id
WHERE runtime_instance.lease_ends < now() LIMIT $1 FOR UPDATE OF upload SKIP LOCKED;

-- name: EndUploads :exec
-- Deletes uploads that the transaction has locked, releases their bytes, and queues the removal of
-- their objects where there are keys, which a space separates. The rows of the usage are locked in
-- the order of the accounts, as in OpenUploads.
WITH ended AS (
    DELETE FROM upload WHERE item_id = ANY (sqlc.arg(item_ids)::uuid[]) RETURNING account_id, reserved
), freed AS MATERIALIZED (
    SELECT account_id, sum(reserved)::bigint AS bytes FROM ended GROUP BY account_id
), locked AS MATERIALIZED (
    SELECT account_usage.account_id, freed.bytes FROM freed JOIN account_usage ON account_usage.account_id = freed.account_id
    ORDER BY account_usage.account_id FOR UPDATE OF account_usage
), released AS (
    UPDATE account_usage SET bytes = account_usage.bytes - locked.bytes FROM locked WHERE account_usage.account_id = locked.account_id
), removed AS (
    SELECT unnest(sqlc.arg(account_ids)::uuid[]) AS account_id, unnest(sqlc.arg(buckets)::text[]) AS bucket, unnest(sqlc.arg(keys)::text[]) AS keys
)
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
SELECT account_id, bucket, string_to_array(keys, ' '), true, sqlc.arg(not_before)::timestamptz FROM removed WHERE keys <> '';

-- name: ItemExists :one
SELECT (EXISTS (SELECT FROM stored_item WHERE id = $1) OR EXISTS (SELECT FROM quarantine WHERE item_id = $1))::boolean;

-- name: ItemHasObject :one
-- Reports whether the object with a key is of an item, or of one in quarantine.
SELECT (EXISTS (SELECT FROM stored_item WHERE id = sqlc.arg(id) AND objects @> jsonb_build_array(jsonb_build_object('key', sqlc.arg(key)::text)))
    OR EXISTS (SELECT FROM quarantine WHERE item_id = sqlc.arg(id) AND objects @> jsonb_build_array(jsonb_build_object('key', sqlc.arg(key)::text))))::boolean;

-- name: BucketOf :one
SELECT bucket FROM account WHERE id = $1;
