-- name: InsertAuthorizationCode :exec
INSERT INTO oauth_code (hash, grant_id, code_challenge, expires_at) VALUES ($1, $2, $3, $4);

-- name: UseAuthorizationCode :one
UPDATE oauth_code SET used_at = sqlc.arg(now)::timestamptz WHERE hash = $1 AND used_at IS NULL RETURNING *;

-- name: FindAuthorizationCode :one
SELECT * FROM oauth_code WHERE hash = $1;

-- name: InsertToken :exec
INSERT INTO oauth_token (hash, grant_id, refresh, created_at, expires_at, scopes) VALUES ($1, $2, $3, $4, $5, sqlc.narg(scopes)::text[]);

-- name: LockRefreshToken :one
SELECT * FROM oauth_token WHERE hash = $1 AND refresh FOR UPDATE;

-- name: RotateToken :exec
UPDATE oauth_token SET rotated_at = coalesce(rotated_at, sqlc.arg(now)::timestamptz), rotations = rotations + 1 WHERE hash = $1;

-- name: FindToken :one
-- Finds an access or refresh token and the client that it was issued to.
SELECT t.grant_id, g.client_id FROM oauth_token t JOIN oauth_grant g ON g.id = t.grant_id WHERE t.hash = $1;

-- name: FindSession :one
-- The principal of an access token. The token ends with its grant, its owner, its account and its key.
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key), g.id AS grant_id, g.client_name, g.email, g.scopes, t.scopes AS token_scopes, g.resource, t.expires_at AS token_expires_at
FROM oauth_token t
JOIN oauth_grant g ON g.id = t.grant_id AND g.revoked_at IS NULL
JOIN account ON account.id = g.account_id AND account.closed_at IS NULL AND g.email = ANY (account.owners)
JOIN api_key ON api_key.id = g.key_id
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
WHERE t.hash = $1 AND NOT t.refresh;

-- name: FindSessionOfGrant :one
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key), g.id AS grant_id, g.client_name, g.email, g.scopes, g.resource
FROM oauth_grant g
JOIN account ON account.id = g.account_id AND account.closed_at IS NULL AND g.email = ANY (account.owners)
JOIN api_key ON api_key.id = g.key_id
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
WHERE g.id = $1 AND g.revoked_at IS NULL;
