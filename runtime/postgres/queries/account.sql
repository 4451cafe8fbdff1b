-- name: InsertAccount :one
-- Nothing is returned when the MediaAccount has an open account already.
INSERT INTO account (id, namespace, name, display_name, owners, max_storage, max_upload_size, bucket, suspended, mcp_read_only, mcp_tools)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (namespace, name) WHERE closed_at IS NULL DO NOTHING
RETURNING *;

-- name: InsertHold :exec
INSERT INTO account_usage (account_id) VALUES ($1);

-- name: FindAccount :one
SELECT * FROM account WHERE namespace = $1 AND name = $2 AND closed_at IS NULL;

-- name: UpdateAccount :one
-- Writes, and so notifies, only when something differs.
UPDATE account SET display_name = sqlc.arg(display_name), owners = sqlc.arg(owners)::text[], max_storage = sqlc.arg(max_storage),
    max_upload_size = sqlc.arg(max_upload_size), suspended = sqlc.arg(suspended),
    mcp_read_only = sqlc.arg(mcp_read_only), mcp_tools = sqlc.arg(mcp_tools)::text[]
WHERE id = sqlc.arg(id) AND (display_name, owners, max_storage, max_upload_size, suspended, mcp_read_only, mcp_tools)
    IS DISTINCT FROM (sqlc.arg(display_name), sqlc.arg(owners)::text[], sqlc.arg(max_storage), sqlc.arg(max_upload_size), sqlc.arg(suspended),
        sqlc.arg(mcp_read_only), sqlc.arg(mcp_tools)::text[])
RETURNING *;

-- name: SetBucketOwned :exec
UPDATE account SET bucket_owned = $2 WHERE id = $1 AND bucket_owned <> $2;

-- name: OwnedBucket :one
SELECT bucket FROM account WHERE bucket_owned AND closed_at IS NULL ORDER BY id LIMIT 1;

-- name: LockAccount :one
SELECT * FROM account WHERE id = $1 FOR NO KEY UPDATE;

-- name: Apps :many
SELECT * FROM app WHERE account_id = $1 ORDER BY name;

-- name: OpenApp :one
INSERT INTO app (id, account_id, name) VALUES ($1, $2, $3)
ON CONFLICT (account_id, name) DO UPDATE SET closed_at = NULL
RETURNING *;

-- name: InsertTotals :exec
INSERT INTO app_total (app_id, account_id, slot)
SELECT sqlc.arg(app_id), sqlc.arg(account_id), slot FROM generate_series(0, 15) AS slot
ON CONFLICT DO NOTHING;

-- name: CloseApps :exec
UPDATE app SET closed_at = now() WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: RevokeKeysOfApps :exec
UPDATE api_key SET expires_at = sqlc.arg(now)::timestamptz
WHERE app_id = ANY (sqlc.arg(app_ids)::uuid[]) AND (expires_at IS NULL OR expires_at > sqlc.arg(now)::timestamptz);

-- name: Keys :many
SELECT k.id, k.app_id, k.hash, k.generation, k.created_at, k.expires_at, u.last_used_at
FROM api_key k
JOIN app ON app.id = k.app_id AND app.closed_at IS NULL
LEFT JOIN api_key_use u ON u.key_id = k.id
WHERE k.account_id = $1 AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
ORDER BY k.created_at DESC, k.id DESC;

-- name: LockApp :one
SELECT app.* FROM app JOIN account ON account.id = app.account_id
WHERE app.id = $1 AND app.closed_at IS NULL AND account.closed_at IS NULL FOR NO KEY UPDATE OF app;

-- name: LimitKeys :exec
-- Every other key of the app ends at the given time at the latest.
UPDATE api_key SET expires_at = sqlc.arg(expires_at)::timestamptz
WHERE app_id = $1 AND (expires_at IS NULL OR expires_at > sqlc.arg(expires_at)::timestamptz);

-- name: InsertKey :exec
INSERT INTO api_key (id, account_id, app_id, hash, generation, created_at) VALUES ($1, $2, $3, $4, $5, $6);

-- name: CloseAccount :exec
UPDATE account SET closed_at = sqlc.arg(now)::timestamptz WHERE id = $1 AND closed_at IS NULL;

-- name: RevokeKeysOfAccount :exec
UPDATE api_key SET expires_at = sqlc.arg(now)::timestamptz
WHERE account_id = $1 AND (expires_at IS NULL OR expires_at > sqlc.arg(now)::timestamptz);

-- name: EraseItems :execrows
-- The id comes from a status, which others can write: name and state must fit as well.
DELETE FROM item WHERE id IN (
    SELECT i.id FROM item i JOIN account ON account.id = i.account_id
    WHERE account.id = $1 AND account.namespace = $2 AND account.name = $3 AND account.closed_at IS NOT NULL
    LIMIT sqlc.arg(batch)::int);

-- name: CountItemsToErase :one
SELECT count(*) FROM item i JOIN account ON account.id = i.account_id
WHERE account.id = $1 AND account.namespace = $2 AND account.name = $3 AND account.closed_at IS NOT NULL;

-- name: EraseAccount :exec
DELETE FROM account WHERE id = $1 AND namespace = $2 AND name = $3 AND closed_at IS NOT NULL;

-- name: Principal :one
-- Who holds the key with this hash. Expired keys are told by the caller's clock.
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

-- name: SealedUsage :one
SELECT coalesce(sum(public_items + private_items), 0)::bigint AS items, coalesce(sum(bytes), 0)::bigint AS bytes
FROM app_total WHERE account_id = $1;

-- name: DraftUsage :one
SELECT count(*) AS items, coalesce(sum(bytes), 0)::bigint AS bytes FROM item WHERE account_id = $1 AND sealed_at IS NULL;

-- name: ReservedUsage :one
SELECT coalesce(sum(reserved), 0)::bigint FROM upload WHERE account_id = $1;
