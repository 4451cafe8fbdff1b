-- name: TouchRuntime :exec
-- Inserts or touches the row of a replica, and deletes those of replicas that ended without
-- deleting their own.
WITH ended AS (
    DELETE FROM runtime_instance WHERE seen_at < now() - interval '10 minutes' AND id <> sqlc.arg(id)
)
INSERT INTO runtime_instance (id, version, started_at, seen_at) VALUES (sqlc.arg(id), sqlc.arg(version), now(), now())
ON CONFLICT (id) DO UPDATE SET seen_at = now();

-- name: RemoveRuntime :exec
DELETE FROM runtime_instance WHERE id = $1;

-- name: ServingRuntimes :many
SELECT version, count(*) AS replicas FROM runtime_instance WHERE seen_at > now() - interval '45 seconds' GROUP BY version ORDER BY version;

-- name: FirstRuntime :one
-- The replica that has served for the longest time.
SELECT id FROM runtime_instance WHERE seen_at > now() - interval '45 seconds' ORDER BY started_at, id LIMIT 1;
