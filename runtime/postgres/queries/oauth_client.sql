-- name: InsertClient :one
-- Registration is idempotent: equal metadata yields the same id, and no row is returned when it exists.
INSERT INTO oauth_client (id, name, website, redirect_uris, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO NOTHING
RETURNING *;

-- name: FindClient :one
SELECT * FROM oauth_client WHERE id = $1;

-- name: TouchClient :exec
UPDATE oauth_client SET last_used_at = sqlc.arg(now)::timestamptz WHERE id = $1;
