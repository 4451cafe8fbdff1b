-- name: LockTakeover :exec
-- Waits for the writes of operators that are in progress, and makes further ones wait.
SELECT pg_advisory_xact_lock($1);

-- name: BindInstallation :execrows
-- Binds an installation that no cluster has bound yet: of two clusters, one wins.
UPDATE installation SET cluster_uid = $1 WHERE cluster_uid = '';

-- name: BeginLeaderTerm :one
-- Returns no row if the installation changed since it was read.
UPDATE installation SET leader_term = leader_term + 1 WHERE cluster_uid = sqlc.arg(cluster_uid) AND epoch = sqlc.arg(epoch) AND hold_reason = '' RETURNING leader_term;

-- name: HoldAtEpoch :exec
-- Raises the epoch to that of the evidence, so that the end of the hold gives one above it. The
-- reason of an earlier hold stays.
UPDATE installation SET epoch = greatest(epoch, sqlc.arg(known_epoch)::bigint), held_at = coalesce(held_at, now()),
    hold_reason = CASE hold_reason WHEN '' THEN sqlc.arg(reason)::text ELSE hold_reason END;

-- name: TakeOverInstallation :one
-- Returns no row if the installation changed since it was read. The new epoch is above that of
-- the ConfigMap, too.
UPDATE installation SET cluster_uid = sqlc.arg(cluster_uid), epoch = greatest(epoch, sqlc.arg(known_epoch)::bigint) + 1, taken_over_at = now()
WHERE cluster_uid = sqlc.arg(old_cluster_uid) AND epoch = sqlc.arg(old_epoch)
RETURNING epoch;

-- name: UnbindAccounts :execrows
UPDATE account SET namespace_uid = '', object_uid = '' WHERE closed_at IS NULL;

-- name: OpenAccounts :many
-- A page of the open accounts in the order of their ids.
SELECT account.id, account.namespace, account.name, account.bucket,
    coalesce((SELECT sum(public_items + private_items) FROM app_total WHERE app_total.account_id = account.id), 0)::bigint AS items,
    coalesce((SELECT bytes FROM account_usage WHERE account_usage.account_id = account.id), 0)::bigint AS bytes
FROM account WHERE account.closed_at IS NULL AND account.id > sqlc.arg(after) ORDER BY account.id LIMIT sqlc.arg(page);
