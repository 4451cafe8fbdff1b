-- name: Keys :many
-- The valid keys of the open apps, newest first. An app without one has a row without a key. All is of
-- one snapshot: the version is of the account and the keys as they are returned.
SELECT sqlc.embed(account), coalesce((SELECT v.version FROM account_version v WHERE v.id = $1), 0)::bigint AS version, app.id AS app_id, app.name AS app_name, app.key_sequence, i.proof_key, now()::timestamptz AS now,
    k.id, k.hash, k.generation, k.sequence, k.object_uid, k.overlap, k.replaces_secret, k.created_at, k.delivered_at, k.expires_at, u.last_used_at
FROM account JOIN app ON app.account_id = account.id AND app.closed_at IS NULL CROSS JOIN installation i
LEFT JOIN api_key k ON k.app_id = app.id AND (k.expires_at IS NULL OR k.expires_at > now())
LEFT JOIN api_key_use u ON u.key_id = k.id
WHERE account.id = $1
ORDER BY k.sequence DESC;

-- name: NextKeySequence :one
UPDATE app SET key_sequence = key_sequence + 1 WHERE id = $1 RETURNING key_sequence;

-- name: RaiseKeySequence :exec
UPDATE app SET key_sequence = $2 WHERE id = $1 AND key_sequence < $2;

-- name: ReplacePendingKey :one
-- Replaces the key that no Secret holds yet. The shorter overlap counts: a revocation that was
-- interrupted stays one.
UPDATE api_key SET hash = sqlc.arg(hash), generation = sqlc.arg(generation), sequence = sqlc.arg(sequence), object_uid = sqlc.arg(object_uid),
    overlap = least(overlap, sqlc.arg(overlap)::bigint), created_at = now()
WHERE app_id = sqlc.arg(app_id) AND delivered_at IS NULL AND expires_at IS NULL
RETURNING *;

-- name: InsertKey :one
INSERT INTO api_key (id, account_id, app_id, hash, generation, sequence, object_uid, overlap, delivered_at)
VALUES (sqlc.arg(id), sqlc.arg(account_id), sqlc.arg(app_id), sqlc.arg(hash), sqlc.arg(generation), sqlc.arg(sequence), sqlc.arg(object_uid), sqlc.arg(overlap),
    CASE WHEN sqlc.arg(delivered)::bool THEN now() END)
RETURNING *;

-- name: FindKey :one
-- The key with this hash, and whether it has ended.
SELECT sqlc.embed(api_key), coalesce(expires_at <= now(), false)::bool AS ended FROM api_key WHERE hash = $1;

-- name: DeliverKey :exec
-- The Secret of the object holds the key.
UPDATE api_key SET delivered_at = coalesce(delivered_at, now()), object_uid = sqlc.arg(object_uid), replaces_secret = false WHERE id = $1;

-- name: DeliverFirstKey :execrows
-- DeliverKey for a pending key that is the first of its app, so that it ends no other one. The lock is
-- that of LockApp. The conditions with coalesce are those of no partial index: a plan of a small table would
-- read all open accounts, and all pending keys, for each key.
WITH opened AS (
    SELECT app.id FROM app JOIN account ON account.id = app.account_id
    WHERE app.id = sqlc.arg(app_id) AND app.closed_at IS NULL AND coalesce(account.closed_at, 'infinity') = 'infinity' FOR NO KEY UPDATE OF app
)
UPDATE api_key SET delivered_at = now(), object_uid = sqlc.arg(object_uid), replaces_secret = false
FROM opened WHERE api_key.app_id = opened.id AND api_key.id = sqlc.arg(id) AND hash = sqlc.arg(hash) AND sequence = 1 AND coalesce(delivered_at, expires_at) IS NULL;

-- name: MarkKeyReplacesSecret :exec
UPDATE api_key SET replaces_secret = true WHERE id = $1 AND hash = $2 AND NOT replaces_secret;

-- name: ReopenKey :exec
-- Makes a key valid again that ended with its account.
UPDATE api_key SET delivered_at = coalesce(delivered_at, now()), object_uid = sqlc.arg(object_uid), replaces_secret = false, expires_at = NULL, closed = false
WHERE id = $1 AND closed;

-- name: LimitOlderKeys :exec
-- Ends the keys before a sequence number after the overlap, and none later than it would have
-- ended before. They cannot be opened again.
UPDATE api_key SET expires_at = least(expires_at, now() + sqlc.arg(overlap)::bigint * interval '1 microsecond'), closed = false
WHERE app_id = $1 AND sequence < sqlc.arg(sequence)
  AND (closed OR expires_at IS NULL OR expires_at > now() + sqlc.arg(overlap)::bigint * interval '1 microsecond');

-- name: DeleteEndedKeys :exec
DELETE FROM api_key WHERE app_id = $1 AND sequence < sqlc.arg(sequence) AND NOT closed AND expires_at <= now();

-- name: PurgeKeys :execrows
-- Deletes keys that ended longer ago than the retention, which is in microseconds.
DELETE FROM api_key WHERE id = ANY (ARRAY(
    SELECT k.id FROM api_key k
    WHERE k.expires_at < now() - sqlc.arg(retention)::bigint * interval '1 microsecond' AND NOT k.closed LIMIT sqlc.arg(batch)::int));

-- name: RevokeKeysOfApps :exec
UPDATE api_key SET expires_at = least(expires_at, now()), closed = false
WHERE app_id = ANY (sqlc.arg(app_ids)::uuid[]) AND (closed OR expires_at IS NULL OR expires_at > now());

-- name: RevokeKeysOfAccount :exec
-- Ends the keys of an account that is closed. Keys in their overlap were replaced already, so
-- that they are not marked as closed. Neither are keys before a pending one without overlap: their
-- revocation had begun.
UPDATE api_key SET expires_at = now(), closed = expires_at IS NULL AND NOT EXISTS (
    SELECT FROM api_key pending
    WHERE pending.app_id = api_key.app_id AND pending.sequence > api_key.sequence
      AND pending.delivered_at IS NULL AND pending.expires_at IS NULL AND pending.overlap = 0)
WHERE api_key.account_id = $1 AND (api_key.expires_at IS NULL OR api_key.expires_at > now());

-- name: Principals :many
-- The principals of the keys with these hashes, without the keys that have ended. The caller may keep
-- a principal until the key ends by its own clock.
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key)
FROM api_key
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
JOIN account ON account.id = api_key.account_id AND account.closed_at IS NULL
WHERE api_key.hash = ANY (sqlc.arg(hashes)::bytea[]) AND (api_key.expires_at IS NULL OR api_key.expires_at > now());

-- name: PrincipalOfKey :one
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key)
FROM api_key
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
JOIN account ON account.id = api_key.account_id AND account.closed_at IS NULL
WHERE api_key.id = $1 AND (api_key.expires_at IS NULL OR api_key.expires_at > now());

-- name: TouchKeys :exec
INSERT INTO api_key_use (key_id, last_used_at)
SELECT used.id, used.at FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(used_at)::timestamptz[]) AS at) AS used
JOIN api_key ON api_key.id = used.id AND api_key.id = ANY (sqlc.arg(ids)::uuid[])
ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(api_key_use.last_used_at, excluded.last_used_at);
