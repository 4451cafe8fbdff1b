-- name: Installation :one
SELECT id, cell, cluster_uid, epoch, leader_term, heartbeat, token, (extract(epoch FROM now() - heartbeat_at) * 1e6)::bigint AS heartbeat_age, server, hold_reason, held_at, resumed_at
FROM installation;

-- name: WitnessBuckets :many
-- Closed accounts are included: their buckets have markers, too.
SELECT id, bucket, (erasing_at IS NOT NULL)::boolean AS erasing FROM account
WHERE id > $1 AND bucket_owned AND bucket_removed_at IS NULL ORDER BY id LIMIT $2;

-- name: RecordServer :exec
UPDATE installation SET server = $1 WHERE server = '';

-- name: AdvanceHeartbeat :execrows
-- The commit is durable whatever the server's default is: a marker must never be ahead of the row.
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true))
UPDATE installation SET heartbeat = heartbeat + 1, token = sqlc.arg(next_token), heartbeat_at = now()
FROM durable WHERE heartbeat = sqlc.arg(heartbeat) AND token = sqlc.arg(token) AND hold_reason = '';

-- name: HoldInstallation :exec
UPDATE installation SET hold_reason = $1, held_at = now() WHERE hold_reason = '';

-- name: ResumeInstallation :execrows
UPDATE installation SET epoch = sqlc.arg(next_epoch), heartbeat = sqlc.arg(next_heartbeat), token = sqlc.arg(next_token), heartbeat_at = now(),
    server = sqlc.arg(server), hold_reason = '', held_at = NULL, resumed_at = now()
WHERE epoch = sqlc.arg(epoch) AND heartbeat = sqlc.arg(heartbeat) AND token = sqlc.arg(token);

-- name: PostponeErasures :exec
-- An account that was opened again after the backup is closed again by the restore, and one whose
-- deletion was ended is being deleted again.
UPDATE account SET erase_after = greatest(erase_after, now() + greatest(erase_after - closed_at, make_interval(secs => sqlc.arg(min_delay_seconds)::float8))), erasing_at = NULL
WHERE erase_after IS NOT NULL AND bucket_removed_at IS NULL;

-- name: PlannedDeletions :many
-- A page of the closed accounts whose media is deleted, in the order of their ids.
SELECT account.id, account.namespace, account.name, account.bucket, closed_at::timestamptz AS closed_at, erase_after::timestamptz AS erase_after,
    (erasing_at IS NOT NULL)::boolean AS erasing,
    coalesce((SELECT sum(public_items + private_items) FROM app_total WHERE app_total.account_id = account.id), 0)::bigint AS items,
    coalesce((SELECT bytes FROM account_usage WHERE account_usage.account_id = account.id), 0)::bigint AS bytes
FROM account WHERE erase_after IS NOT NULL AND account.id > sqlc.arg(after) ORDER BY account.id LIMIT sqlc.arg(page);
