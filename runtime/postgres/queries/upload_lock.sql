-- name: TryUploadLock :one
SELECT pg_try_advisory_lock(sqlc.arg(key)::bigint);

-- name: UploadUnlock :exec
SELECT pg_advisory_unlock(sqlc.arg(key)::bigint);

-- name: NotifyRelease :exec
SELECT pg_notify(sqlc.arg(channel)::text, sqlc.arg(payload)::text);
