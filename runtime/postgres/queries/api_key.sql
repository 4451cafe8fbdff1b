-- name: RevokeKeysOfApps :exec
UPDATE api_key SET expires_at = sqlc.arg(now)::timestamptz
WHERE app_id = ANY (sqlc.arg(app_ids)::uuid[]) AND (expires_at IS NULL OR expires_at > sqlc.arg(now)::timestamptz);

-- name: Keys :many
SELECT k.id, k.app_id, k.hash, k.generation, k.created_at, k.expires_at, u.last_used_at
FROM api_key k
JOIN app ON app.id = k.app_id AND app.closed_at IS NULL
LEFT JOIN api_key_use u ON u.key_id = k.id
WHERE k.account_id = $1 AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
ORDER BY k.sequence DESC;

-- name: LimitKeys :exec
-- Limits the lifetime of the existing keys of the app.
UPDATE api_key SET expires_at = sqlc.arg(expires_at)::timestamptz
WHERE app_id = $1 AND (expires_at IS NULL OR expires_at > sqlc.arg(expires_at)::timestamptz);

-- name: InsertKey :exec
WITH next AS (
    UPDATE app SET key_sequence = key_sequence + 1 WHERE app.id = sqlc.arg(app_id) RETURNING key_sequence
)
INSERT INTO api_key (id, account_id, app_id, hash, generation, sequence, object_uid, created_at, delivered_at)
SELECT sqlc.arg(id), sqlc.arg(account_id), sqlc.arg(app_id), sqlc.arg(hash), sqlc.arg(generation), next.key_sequence, sqlc.arg(object_uid), sqlc.arg(created_at), now() FROM next;

-- name: Principal :one
-- The principal of the key with this hash. The caller's clock decides whether the key has expired.
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key)
FROM api_key
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
JOIN account ON account.id = api_key.account_id AND account.closed_at IS NULL
WHERE api_key.hash = $1;

-- name: PrincipalOfKey :one
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key)
FROM api_key
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
JOIN account ON account.id = api_key.account_id AND account.closed_at IS NULL
WHERE api_key.id = $1;

-- name: TouchKeys :exec
INSERT INTO api_key_use (key_id, last_used_at)
SELECT used.id, used.at FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(used_at)::timestamptz[]) AS at) AS used
JOIN api_key ON api_key.id = used.id
ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(api_key_use.last_used_at, excluded.last_used_at);
