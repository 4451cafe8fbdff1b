-- name: TouchRuntime :one
-- Inserts the row of a process or renews its lease. lapsed: it had none before, or it had ended.
-- dead: the lease of another process has ended although it could have been renewed: this process
-- renewed its own for at least as long.
WITH touched AS (
    INSERT INTO runtime_instance AS own (id, version, started_at, alive_since, lease_ends)
    VALUES (sqlc.arg(id), sqlc.arg(version), now(), now(), now() + sqlc.arg(lease)::bigint * interval '1 microsecond')
    ON CONFLICT (id) DO UPDATE SET lease_ends = excluded.lease_ends,
        alive_since = CASE WHEN own.lease_ends < now() THEN now() ELSE own.alive_since END
    RETURNING alive_since
)
SELECT (SELECT count(*) + 1 FROM runtime_instance other WHERE other.id <> sqlc.arg(id) AND other.lease_ends >= now())::bigint AS replicas,
    (touched.alive_since = now())::boolean AS lapsed,
    (touched.alive_since <= now() - sqlc.arg(lease)::bigint * interval '1 microsecond'
        AND EXISTS (SELECT FROM runtime_instance other WHERE other.id <> sqlc.arg(id) AND other.lease_ends < now()))::boolean AS dead
FROM touched;

-- name: RemoveRuntime :exec
-- Ends the lease of a process. Its row stays as long as there are uploads of it.
WITH ended AS (
    UPDATE runtime_instance SET lease_ends = now() WHERE runtime_instance.id = $1 AND EXISTS (SELECT FROM upload WHERE instance_id = $1)
)
DELETE FROM runtime_instance WHERE runtime_instance.id = $1 AND NOT EXISTS (SELECT FROM upload WHERE instance_id = $1);

-- name: RemoveDeadRuntimes :exec
DELETE FROM runtime_instance WHERE lease_ends < now() AND NOT EXISTS (SELECT FROM upload WHERE instance_id = runtime_instance.id);

-- name: ServingRuntimes :many
SELECT version, count(*) AS replicas FROM runtime_instance WHERE lease_ends >= now() GROUP BY version ORDER BY version;

-- name: FirstRuntime :one
-- The process that has served for the longest time.
SELECT id FROM runtime_instance WHERE lease_ends >= now() ORDER BY started_at, id LIMIT 1;
