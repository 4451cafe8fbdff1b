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

-- name: LockApp :one
SELECT app.* FROM app JOIN account ON account.id = app.account_id
WHERE app.id = $1 AND app.closed_at IS NULL AND account.closed_at IS NULL FOR NO KEY UPDATE OF app;
