-- name: QueueRemoval :one
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before) VALUES ($1, $2, $3, $4, $5) RETURNING id;

-- name: EnqueueRemovals :execrows
-- Adds a task for each account with removals that are due, unless it has one: one look into the index for each account. The statements that
-- queue removals add no task, because a request carries out most of them itself.
WITH RECURSIVE queued AS (
    (SELECT r.account_id FROM object_removal r ORDER BY r.account_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.account_id FROM object_removal r WHERE r.account_id > queued.account_id ORDER BY r.account_id LIMIT 1) FROM queued WHERE queued.account_id IS NOT NULL
)
INSERT INTO work (kind, key, account_id)
SELECT sqlc.arg(kind)::text, queued.account_id, queued.account_id FROM queued
WHERE EXISTS (SELECT FROM object_removal r WHERE r.account_id = queued.account_id AND r.not_before <= sqlc.arg(now)::timestamptz)
ON CONFLICT (kind, key) DO NOTHING;

-- name: DueRemovals :many
SELECT id, account_id, bucket, keys, abort_multipart, attempts FROM object_removal
WHERE account_id = $1 AND not_before <= sqlc.arg(now)::timestamptz ORDER BY not_before LIMIT sqlc.arg(batch)::int;

-- name: FinishRemovals :exec
DELETE FROM object_removal WHERE id = ANY (sqlc.arg(ids)::bigint[]);

-- name: FinishRemoval :exec
-- One alone: PostgreSQL would plan the comparison with an array again for each delete. The request does not wait until this is on disk:
-- what is in the queue again after a crash is removed again, which changes nothing.
DELETE FROM object_removal WHERE id = $1 AND set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- name: FailRemovals :exec
UPDATE object_removal SET attempts = attempts + 1, not_before = sqlc.arg(not_before)::timestamptz, last_error = sqlc.arg(last_error) WHERE id = ANY (sqlc.arg(ids)::bigint[]);

-- name: InspectRemovals :one
SELECT count(*) AS pending, coalesce(max(attempts) FILTER (WHERE last_error <> ''), 0)::int AS attempts FROM object_removal;

-- name: FailingBuckets :many
SELECT DISTINCT account_id, bucket FROM object_removal WHERE last_error <> '' LIMIT sqlc.arg(buckets)::int;

-- name: QueuedRemoval :one
SELECT id, bucket, keys FROM object_removal WHERE account_id = $1 AND request = sqlc.arg(request)::uuid LIMIT 1;

-- name: RemovalsOfRequest :many
-- Those that one request has queued, which are the newest ones of the account.
SELECT id, bucket, keys FROM object_removal WHERE account_id = $1 AND request = sqlc.arg(request)::uuid;
