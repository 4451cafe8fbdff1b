-- name: RecordPurge :exec
UPDATE purge_run SET started_at = sqlc.arg(started_at)::timestamptz, ended_at = sqlc.arg(ended_at)::timestamptz,
    needs_attention = sqlc.arg(needs_attention), buckets_skipped = sqlc.arg(buckets_skipped),
    succeeded_at = CASE WHEN sqlc.arg(completed)::bigint > 0 THEN sqlc.arg(ended_at)::timestamptz ELSE succeeded_at END,
    runs_completed = runs_completed + sqlc.arg(completed)::bigint, runs_failed = runs_failed + sqlc.arg(failed)::bigint, runs_held = runs_held + sqlc.arg(held)::bigint,
    drafts = drafts + sqlc.arg(drafts)::bigint, deleted_items = deleted_items + sqlc.arg(deleted_items)::bigint, uploads = uploads + sqlc.arg(uploads)::bigint, removals = removals + sqlc.arg(removals)::bigint,
    removals_failed = removals_failed + sqlc.arg(removals_failed)::bigint, oauth_rows = oauth_rows + sqlc.arg(oauth_rows)::bigint, api_keys = api_keys + sqlc.arg(api_keys)::bigint, renditions = renditions + sqlc.arg(renditions)::bigint;

-- name: PurgeRun :one
SELECT * FROM purge_run;

-- name: Queues :one
-- What waits in the queues of the database. An open resumable upload has a row in upload, too.
SELECT (SELECT count(*) FROM upload) AS uploads,
    (SELECT count(*) FROM resumable_upload JOIN upload ON upload.item_id = resumable_upload.item_id) AS resumable_uploads,
    (SELECT count(*) FROM object_removal) AS removals,
    (SELECT count(*) FROM object_removal WHERE last_error <> '') AS removals_failed,
    (SELECT count(*) FROM fetch_job WHERE ended_at IS NULL AND state = 'queued' AND not_before <= now()) AS fetches,
    coalesce((SELECT extract(epoch FROM now() - min(not_before)) FROM fetch_job waiting WHERE ended_at IS NULL AND state = 'queued' AND not_before <= now()
        AND NOT EXISTS (SELECT FROM fetch_job running WHERE running.account_id = waiting.account_id AND running.ended_at IS NULL AND running.state = 'running')), 0)::float8 AS fetch_wait_seconds;

-- name: OldestDraft :one
-- Since when the purge counts the age of the oldest draft: as in PurgeDrafts, a restore that was
-- confirmed since gives drafts their full time again.
SELECT greatest(created_at, (SELECT resumed_at FROM installation))::timestamptz AS since FROM item WHERE sealed_at IS NULL ORDER BY created_at LIMIT 1;

-- name: AccountStates :one
SELECT count(*) FILTER (WHERE closed_at IS NULL AND NOT suspended) AS open, count(*) FILTER (WHERE closed_at IS NULL AND suspended) AS suspended,
    count(*) FILTER (WHERE closed_at IS NOT NULL) AS closed FROM account;

-- name: StoredByAccount :many
-- What the accounts with the most bytes store, and in one more row, without an id, what all others store together.
WITH draft AS (
    SELECT account_id, count(*) AS items FROM item WHERE sealed_at IS NULL GROUP BY account_id
), sealed AS (
    SELECT account_id, sum(public_items + private_items) AS items, sum(bytes) AS bytes FROM app_total GROUP BY account_id
), stored AS (
    SELECT account.id, account.namespace, account.name, account.max_storage, account_usage.bytes AS used_bytes, account_usage.rendition_bytes, sealed.bytes, sealed.items, draft.items AS drafts,
        row_number() OVER (ORDER BY account_usage.bytes DESC NULLS LAST, account.id) <= sqlc.arg(accounts)::bigint AS alone
    FROM account LEFT JOIN account_usage ON account_usage.account_id = account.id LEFT JOIN sealed ON sealed.account_id = account.id LEFT JOIN draft ON draft.account_id = account.id
)
SELECT coalesce(CASE WHEN alone THEN id END, '00000000-0000-0000-0000-000000000000')::uuid AS account_id,
    coalesce(CASE WHEN alone THEN namespace END, '')::text AS namespace, coalesce(CASE WHEN alone THEN name END, '')::text AS name,
    sum(max_storage)::bigint AS max_storage, coalesce(sum(used_bytes), 0)::bigint AS used_bytes, coalesce(sum(rendition_bytes), 0)::bigint AS rendition_bytes, coalesce(sum(bytes), 0)::bigint AS bytes,
    coalesce(sum(items), 0)::bigint AS items, coalesce(sum(drafts), 0)::bigint AS drafts
FROM stored GROUP BY 1, 2, 3;
