-- name: QueueRemoval :one
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before) VALUES ($1, $2, $3, $4, $5) RETURNING id;

-- name: DueRemovals :many
-- Leases a batch by moving its due time, so that two processes seldom remove the same objects; removing them twice is harmless.
UPDATE object_removal SET not_before = sqlc.arg(leased_until)::timestamptz, attempts = attempts + 1
WHERE id = ANY (ARRAY(SELECT r.id FROM object_removal r WHERE r.not_before <= sqlc.arg(now)::timestamptz ORDER BY r.not_before LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED))
RETURNING id, account_id, bucket, keys, abort_multipart, attempts;

-- name: FinishRemovals :exec
DELETE FROM object_removal WHERE id = ANY (sqlc.arg(ids)::bigint[]);

-- name: FailRemovals :exec
UPDATE object_removal SET not_before = sqlc.arg(not_before)::timestamptz, last_error = sqlc.arg(last_error) WHERE id = ANY (sqlc.arg(ids)::bigint[]);

-- name: CountRemovals :one
SELECT count(*) FROM object_removal;

-- name: QueuedRemoval :one
SELECT id, bucket, keys FROM object_removal WHERE account_id = $1 AND request = sqlc.arg(request)::uuid LIMIT 1;

-- name: RemovalsOfRequest :many
-- Those that one request has queued, which are the newest ones of the account.
SELECT id, bucket, keys FROM object_removal WHERE account_id = $1 AND request = sqlc.arg(request)::uuid;
