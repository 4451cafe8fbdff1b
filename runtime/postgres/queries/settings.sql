-- name: Pins :one
SELECT * FROM settings_pin WHERE account_id = $1;

-- name: Choices :one
SELECT * FROM settings_tenant WHERE account_id = $1;

-- name: LockAccountForSettings :one
-- Pins and choices of one account change one after the other.
SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE;

-- name: SetPins :exec
INSERT INTO settings_pin (account_id, pinned_by, use_webp, webp_output_quality, thumbnail_width, thumbnail_height)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account_id) DO UPDATE SET pinned_by = excluded.pinned_by, use_webp = excluded.use_webp,
    webp_output_quality = excluded.webp_output_quality, thumbnail_width = excluded.thumbnail_width, thumbnail_height = excluded.thumbnail_height
WHERE settings_pin IS DISTINCT FROM excluded;

-- name: RemovePins :exec
DELETE FROM settings_pin WHERE account_id = $1 AND pinned_by = $2;

-- name: SetChoices :one
-- A null leaves the tenant's earlier choice.
INSERT INTO settings_tenant (account_id, use_webp, webp_output_quality, thumbnail_width, thumbnail_height)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (account_id) DO UPDATE SET use_webp = coalesce(excluded.use_webp, settings_tenant.use_webp),
    webp_output_quality = coalesce(excluded.webp_output_quality, settings_tenant.webp_output_quality),
    thumbnail_width = coalesce(excluded.thumbnail_width, settings_tenant.thumbnail_width),
    thumbnail_height = coalesce(excluded.thumbnail_height, settings_tenant.thumbnail_height)
RETURNING *;
