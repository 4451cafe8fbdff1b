-- name: TryPurgeLock :one
SELECT pg_try_advisory_lock($1);

-- name: PurgeUnlock :exec
SELECT pg_advisory_unlock($1);
