-- name: TryUploadLocks :many
-- The session holds none of the keys, and no key is there twice.
SELECT keys.key::bigint AS key, pg_try_advisory_lock(keys.key) AS taken FROM unnest(sqlc.arg(keys)::bigint[]) AS keys (key);

-- name: UploadUnlocks :exec
SELECT pg_advisory_unlock(keys.key) FROM unnest(sqlc.arg(keys)::bigint[]) AS keys (key);

-- name: NotifyReleases :exec
SELECT pg_notify(sqlc.arg(channel)::text, payloads.payload) FROM unnest(sqlc.arg(payloads)::text[]) AS payloads (payload);
