-- name: LockFetchQueue :exec
-- Serializes what counts the jobs of an account, until the end of the transaction.
SELECT pg_advisory_xact_lock(sqlc.arg(class)::int, hashtext(sqlc.arg(queue)::text));

-- name: AddFetch :execrows
INSERT INTO fetch_job (id, account_id, app_id, key_id, grant_id, assistant, url, file_name, access, caption, group_label, metadata, seal, created_at)
SELECT sqlc.arg(id)::uuid, sqlc.arg(account_id)::uuid, sqlc.arg(app_id)::uuid, sqlc.arg(key_id)::uuid, sqlc.narg(grant_id)::uuid, sqlc.arg(assistant)::boolean, sqlc.arg(url)::text, sqlc.arg(file_name)::text,
    sqlc.arg(access)::text, sqlc.arg(caption)::text, sqlc.arg(group_label)::text, sqlc.arg(metadata)::jsonb, sqlc.arg(seal)::boolean, sqlc.arg(created_at)::timestamptz
WHERE (SELECT count(*) FROM fetch_job open WHERE open.account_id = sqlc.arg(account_id)::uuid AND open.ended_at IS NULL) < sqlc.arg(max_open)::int;

-- name: FetchJob :one
SELECT * FROM fetch_job WHERE id = $1 AND account_id = $2 AND app_id = $3;

-- name: FetchIsOpen :one
-- Reports whether a job waits or runs, so that an idle process takes no lock.
SELECT EXISTS (SELECT FROM fetch_job WHERE ended_at IS NULL AND (state = 'running' OR not_before <= now()));

-- name: NextFetch :one
-- The job that has been due for longest of the accounts with the fewest running jobs, if they have a slot:
-- an account with many jobs does not keep others waiting. A running one is due when the
-- lease of its process has ended, and this process has served for as long as what is left of its own
-- lease: after an outage of the database, the others need the time to renew theirs.
SELECT job.* FROM fetch_job job
LEFT JOIN (SELECT account_id, count(*) AS jobs FROM fetch_job WHERE ended_at IS NULL AND state = 'running' GROUP BY account_id) running ON running.account_id = job.account_id
CROSS JOIN runtime_instance own
WHERE own.id = sqlc.arg(instance_id)::uuid AND own.lease_ends >= now() AND job.ended_at IS NULL
  AND (job.state = 'queued' AND job.not_before <= now()
    OR job.state = 'running' AND own.alive_since <= now() - (own.lease_ends - now())
      AND NOT EXISTS (SELECT FROM runtime_instance holder WHERE holder.id = job.instance_id AND holder.lease_ends >= now()))
  AND coalesce(running.jobs, 0) - (job.state = 'running')::int < sqlc.arg(per_account)::int
ORDER BY coalesce(running.jobs, 0) - (job.state = 'running')::int, job.not_before, job.id LIMIT 1 FOR UPDATE OF job SKIP LOCKED;

-- name: StarvedFetch :one
-- A row if a job of an account of which none runs has been due for longer than wait. yields is the job that
-- makes room for it: of the account of which the most run, the one that has received the least. It is the
-- zero UUID if of no account several run. The job of a process whose lease has ended cannot yield.
WITH running AS MATERIALIZED (
    SELECT account_id, count(*) AS jobs FROM fetch_job WHERE ended_at IS NULL AND state = 'running' GROUP BY account_id
)
SELECT coalesce((
    SELECT job.id FROM fetch_job job JOIN running ON running.account_id = job.account_id
    WHERE job.ended_at IS NULL AND job.state = 'running' AND running.jobs > 1
      AND EXISTS (SELECT FROM runtime_instance holder WHERE holder.id = job.instance_id AND holder.lease_ends >= now())
    ORDER BY running.jobs DESC, job.bytes, job.id LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS yields
FROM fetch_job waiting
WHERE waiting.ended_at IS NULL AND waiting.state = 'queued' AND waiting.not_before <= now() - sqlc.arg(wait)::bigint * interval '1 microsecond'
  AND NOT EXISTS (SELECT FROM running WHERE running.account_id = waiting.account_id)
LIMIT 1;

-- name: UploadOfFetch :many
-- As ExpiredUploads, of one item.
SELECT upload.item_id, upload.account_id, account.bucket, upload.capability_id, coalesce(upload.opened_at <= (SELECT resumed_at FROM installation), false)::boolean AS keep_objects FROM upload JOIN account ON account.id = upload.account_id
WHERE upload.item_id = $1 FOR UPDATE OF upload;

-- name: ClaimFetch :one
UPDATE fetch_job SET state = 'running', instance_id = sqlc.arg(instance_id)::uuid, item_id = sqlc.arg(item_id)::uuid, attempts = attempts + 1,
    bytes = CASE WHEN item_id = sqlc.arg(item_id)::uuid THEN bytes ELSE 0 END, total = CASE WHEN item_id = sqlc.arg(item_id)::uuid THEN total ELSE 0 END
WHERE id = sqlc.arg(id) RETURNING *;

-- name: ReportFetch :execrows
UPDATE fetch_job SET bytes = sqlc.arg(bytes), total = sqlc.arg(total) WHERE id = sqlc.arg(id) AND item_id = sqlc.arg(item_id)::uuid AND instance_id = sqlc.arg(instance_id)::uuid;

-- name: FinishFetch :execrows
UPDATE fetch_job SET state = CASE WHEN sqlc.arg(error_code)::text = '' THEN 'done' ELSE 'failed' END, bytes = greatest(bytes, sqlc.arg(bytes)::bigint),
    error_code = sqlc.arg(error_code)::text, error_text = sqlc.arg(error_text)::text, ended_at = now(), url = '', instance_id = NULL
WHERE id = sqlc.arg(id) AND item_id = sqlc.arg(item_id)::uuid AND instance_id = sqlc.arg(instance_id)::uuid;

-- name: ReturnFetch :execrows
UPDATE fetch_job SET state = 'queued', instance_id = NULL, not_before = now() + sqlc.arg(delay)::bigint * interval '1 microsecond',
    attempts = attempts - CASE WHEN sqlc.arg(counted)::boolean THEN 0 ELSE 1 END
WHERE id = sqlc.arg(id) AND item_id = sqlc.arg(item_id)::uuid AND instance_id = sqlc.arg(instance_id)::uuid;

-- name: PurgeFetches :execrows
DELETE FROM fetch_job WHERE id = ANY (ARRAY(
    SELECT job.id FROM fetch_job job WHERE job.ended_at < sqlc.arg(cutoff)::timestamptz
    UNION ALL
    SELECT job.id FROM fetch_job job WHERE job.ended_at IS NULL AND job.created_at < sqlc.arg(cutoff)::timestamptz
      AND NOT EXISTS (SELECT FROM runtime_instance holder WHERE holder.id = job.instance_id AND holder.lease_ends >= now())
    LIMIT sqlc.arg(batch)::int));
