-- name: QueueRemoval :one
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before) VALUES ($1, $2, $3, $4, $5) RETURNING id;

-- name: DueRemovals :many
-- Claims a batch by pushing its time on, so that two removers seldom do the same work; doing it twice is harmless.
UPDATE object_removal SET not_before = sqlc.arg(claimed_until)::timestamptz, attempts = attempts + 1
WHERE id IN (SELECT r.id FROM object_removal r WHERE r.not_before <= sqlc.arg(now)::timestamptz ORDER BY r.not_before LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED)
RETURNING id, bucket, keys, abort_multipart, attempts;

-- name: FinishRemovals :exec
DELETE FROM object_removal WHERE id = ANY (sqlc.arg(ids)::bigint[]);

-- name: FailRemovals :exec
UPDATE object_removal SET not_before = sqlc.arg(not_before)::timestamptz, last_error = sqlc.arg(last_error) WHERE id = ANY (sqlc.arg(ids)::bigint[]);

-- name: CountRemovals :one
SELECT count(*) FROM object_removal;

-- name: TrySweepLock :one
SELECT pg_try_advisory_lock($1);

-- name: SweepUnlock :exec
SELECT pg_advisory_unlock($1);
