-- name: AccountVersionsAfter :many
SELECT id, namespace, name, version, settings_version FROM account_version
WHERE id > sqlc.arg(after)::uuid AND (sqlc.narg(namespaces)::text[] IS NULL OR namespace = ANY (sqlc.narg(namespaces)::text[]))
ORDER BY id LIMIT $1;

-- name: AccountVersions :many
SELECT id, namespace, name, version, settings_version FROM account_version WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: AccountHoldingsAfter :many
SELECT id, namespace, name, used, sealed_items, sealed_bytes, reserved, draft_bytes, deleted_bytes, rendition_bytes, last_used_at FROM account_holding
WHERE id > sqlc.arg(after)::uuid AND (sqlc.narg(namespaces)::text[] IS NULL OR namespace = ANY (sqlc.narg(namespaces)::text[]))
ORDER BY id LIMIT $1;

-- name: AccountHolding :one
SELECT used, sealed_items, sealed_bytes, reserved, draft_bytes, deleted_bytes, rendition_bytes FROM account_holding WHERE id = $1;
