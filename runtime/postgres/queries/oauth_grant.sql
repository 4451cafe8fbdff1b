-- name: OwnsAnyAccount :one
SELECT EXISTS (SELECT FROM account WHERE owners @> ARRAY[sqlc.arg(email)::text] AND closed_at IS NULL AND NOT suspended);

-- name: AccountsByOwner :many
SELECT * FROM account
WHERE owners @> ARRAY[sqlc.arg(email)::text] AND closed_at IS NULL AND NOT suspended
ORDER BY display_name, namespace, name LIMIT sqlc.arg(batch)::int;

-- name: PrincipalOfOwner :one
-- An app of an owner's account, with the newest valid key, for which the login of the owner stands.
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key) FROM account
JOIN app ON app.account_id = account.id AND app.name = sqlc.arg(app) AND app.closed_at IS NULL
JOIN api_key ON api_key.app_id = app.id AND (api_key.expires_at IS NULL OR api_key.expires_at > sqlc.arg(now)::timestamptz)
WHERE account.id = $1 AND account.owners @> ARRAY[sqlc.arg(email)::text] AND account.closed_at IS NULL AND NOT account.suspended
ORDER BY api_key.sequence DESC LIMIT 1;

-- name: AppNamesOfOwner :many
-- The apps of an owner's account that have a valid key. There are few in an account.
SELECT app.name FROM app JOIN account ON account.id = app.account_id
WHERE app.account_id = $1 AND app.closed_at IS NULL AND account.owners @> ARRAY[sqlc.arg(email)::text] AND account.closed_at IS NULL AND NOT account.suspended
    AND EXISTS (SELECT FROM api_key WHERE api_key.app_id = app.id AND (api_key.expires_at IS NULL OR api_key.expires_at > sqlc.arg(now)::timestamptz))
ORDER BY app.name LIMIT sqlc.arg(batch)::int;

-- name: LockAccountForShare :one
-- Locks the account against changes until the grant is committed, so that the trigger that revokes grants sees the grant.
SELECT * FROM account
WHERE id = $1 AND owners @> ARRAY[sqlc.arg(email)::text] AND closed_at IS NULL AND NOT suspended FOR SHARE;

-- name: DefaultKey :one
-- The key whose rights a grant has: the newest valid key of the Default App.
SELECT k.* FROM api_key k JOIN app ON app.id = k.app_id AND app.closed_at IS NULL
WHERE app.account_id = $1 AND app.name = sqlc.arg(app) AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
ORDER BY k.sequence DESC LIMIT 1;

-- name: InsertGrant :exec
INSERT INTO oauth_grant (id, account_id, key_id, email, client_id, client_name, redirect_uri, scopes, resource, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: LockGrant :one
SELECT sqlc.embed(g), account.suspended, (account.closed_at IS NULL AND g.email = ANY (account.owners))::bool AS owner,
    (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)::bool AS key_valid
FROM oauth_grant g JOIN account ON account.id = g.account_id JOIN api_key k ON k.id = g.key_id
WHERE g.id = $1 AND g.revoked_at IS NULL FOR UPDATE OF g;

-- name: RebindGrant :exec
-- Binds the grant to another key of the same app.
UPDATE oauth_grant SET key_id = $2 WHERE id = $1 AND key_id <> $2;

-- name: RevokeGrant :execrows
UPDATE oauth_grant SET revoked_at = sqlc.arg(now)::timestamptz, revocation_reason = sqlc.arg(reason) WHERE id = $1 AND revoked_at IS NULL;

-- name: TouchGrants :exec
-- SKIP LOCKED: the time of a grant locked by another transaction is updated on a later flush; its requests are not counted.
WITH free AS (SELECT g.id FROM oauth_grant g WHERE g.id = ANY (sqlc.arg(ids)::uuid[]) FOR NO KEY UPDATE SKIP LOCKED)
UPDATE oauth_grant SET last_used_at = greatest(oauth_grant.last_used_at, used.at), requests = oauth_grant.requests + used.requests
FROM free, (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(used_at)::timestamptz[]) AS at, unnest(sqlc.arg(requests)::bigint[]) AS requests) AS used
WHERE oauth_grant.id = used.id AND free.id = used.id AND oauth_grant.id = ANY (sqlc.arg(ids)::uuid[]);

-- name: Connections :many
-- The usable grants of an e-mail address.
SELECT sqlc.embed(g), sqlc.embed(account) FROM oauth_grant g
JOIN account ON account.id = g.account_id AND account.closed_at IS NULL AND NOT account.suspended AND g.email = ANY (account.owners)
JOIN api_key k ON k.id = g.key_id AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
WHERE g.email = $1 AND g.revoked_at IS NULL
  AND EXISTS (SELECT FROM oauth_token t WHERE t.grant_id = g.id AND t.expires_at > sqlc.arg(now)::timestamptz)
ORDER BY g.created_at DESC LIMIT sqlc.arg(batch)::int;

-- name: RevokeGrantsByEmail :execrows
-- Revokes one usable grant of the e-mail address, or all of them when there is no id.
WITH own AS (
    SELECT o.id FROM oauth_grant o WHERE o.email = $1 AND o.revoked_at IS NULL AND (sqlc.narg(id)::uuid IS NULL OR o.id = sqlc.narg(id))
    ORDER BY o.id FOR UPDATE)
UPDATE oauth_grant g SET revoked_at = sqlc.arg(now)::timestamptz, revocation_reason = 'revoked by the user'
FROM own, api_key k
WHERE g.id = own.id AND g.id = ANY (ARRAY(SELECT own.id FROM own)) AND k.id = g.key_id AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
  AND (EXISTS (SELECT FROM oauth_token t WHERE t.grant_id = g.id AND t.expires_at > sqlc.arg(now)::timestamptz)
    OR EXISTS (SELECT FROM oauth_code c WHERE c.grant_id = g.id AND c.used_at IS NULL AND c.expires_at > sqlc.arg(now)::timestamptz));

-- name: RevokeGrantsOfExpiredKeys :execrows
-- Revokes the grants that were not rebound before their key expired.
WITH free AS (
    SELECT f.id FROM oauth_grant f JOIN api_key ON api_key.id = f.key_id
    WHERE f.revoked_at IS NULL AND api_key.expires_at <= sqlc.arg(now)::timestamptz FOR NO KEY UPDATE OF f SKIP LOCKED)
UPDATE oauth_grant g SET revoked_at = k.expires_at, revocation_reason = 'API key expired'
FROM free, api_key k WHERE g.id = free.id AND g.id = ANY (ARRAY(SELECT free.id FROM free)) AND k.id = g.key_id;
