-- name: InstallationID :one
SELECT id FROM installation;

-- name: RetainedAccountsAfter :many
-- The counters are of the items, so that no item is counted.
SELECT sqlc.embed(account), installation.id AS installation_id, coalesce(account.erase_after <= now(), false)::boolean AS due,
    coalesce((SELECT sum(t.public_items + t.private_items) FROM app_total t WHERE t.account_id = account.id), 0)::bigint AS items,
    coalesce((SELECT u.bytes FROM account_usage u WHERE u.account_id = account.id), 0)::bigint AS bytes
FROM account CROSS JOIN installation
WHERE account.closed_at IS NOT NULL AND account.id > sqlc.arg(after)::uuid
ORDER BY account.id LIMIT $1;

-- name: RetainedAccount :one
SELECT sqlc.embed(account), installation.id AS installation_id, coalesce(account.erase_after <= now(), false)::boolean AS due,
    coalesce((SELECT sum(t.public_items + t.private_items) FROM app_total t WHERE t.account_id = account.id), 0)::bigint AS items,
    coalesce((SELECT u.bytes FROM account_usage u WHERE u.account_id = account.id), 0)::bigint AS bytes
FROM account CROSS JOIN installation
WHERE account.closed_at IS NOT NULL AND account.id = $1;

-- name: LockRetainedAccount :one
SELECT sqlc.embed(account), installation.id AS installation_id
FROM account CROSS JOIN installation
WHERE account.closed_at IS NOT NULL AND account.id = $1 FOR NO KEY UPDATE OF account;

-- name: EraseNow :exec
UPDATE account SET erase_after = now() WHERE id = $1;

-- name: KeepMedia :exec
UPDATE account SET erase_after = NULL WHERE id = $1 AND erasing_at IS NULL;

-- name: BoundAccountsAfter :many
-- Accounts that a take-over has unbound are left out for a time, in which their objects are
-- expected.
SELECT account.id, account.namespace, account.name, account.object_uid
FROM account CROSS JOIN installation
WHERE account.closed_at IS NULL AND account.id > sqlc.arg(after)::uuid
    AND (sqlc.narg(namespaces)::text[] IS NULL OR account.namespace = ANY (sqlc.narg(namespaces)::text[]))
    AND (account.namespace_uid <> '' OR installation.taken_over_at <= now() - sqlc.arg(grace_seconds)::float8 * interval '1 second')
ORDER BY account.id LIMIT $1;

-- name: LockBoundAccount :one
SELECT id FROM account WHERE id = $1 AND object_uid = $2 AND closed_at IS NULL FOR NO KEY UPDATE;
