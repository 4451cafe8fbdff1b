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

-- name: EnqueueFetches :execrows
-- Adds the tasks of jobs that have none: replicas of a version before package work have queued them, and claim them without tasks. A task
-- that is there is found by the primary key.
INSERT INTO work (kind, key, account_id, due_at)
SELECT sqlc.arg(kind)::text, job.id, job.account_id, job.not_before FROM fetch_job job
WHERE job.ended_at IS NULL AND (job.state = 'queued' OR process_ended(job.instance_id, sqlc.arg(own)::uuid))
ON CONFLICT (kind, key) DO NOTHING;

-- name: LockFetch :one
-- held reports whether another process runs the job whose lease has not ended, or this one has no lease.
SELECT job.item_id, (NOT EXISTS (SELECT FROM runtime_instance own WHERE own.id = sqlc.arg(instance_id)::uuid AND own.lease_ends >= now())
    OR job.instance_id IS NOT NULL AND job.instance_id <> sqlc.arg(instance_id)::uuid AND NOT process_ended(job.instance_id, sqlc.arg(instance_id)::uuid))::boolean AS held
FROM fetch_job job WHERE job.id = sqlc.arg(id) AND job.ended_at IS NULL FOR UPDATE OF job;

-- name: StarvedFetch :one
-- A row if a task of an account of which none runs has been due for longer than wait. yields is the job that
-- makes room for it: of the account of which the most run, the one that has received the least. It is the
-- zero UUID if of no account several run. The job of a process whose lease has ended cannot yield.
WITH running AS MATERIALIZED (
    SELECT w.account_id, count(*) AS tasks FROM work w WHERE w.kind = sqlc.arg(kind) AND w.claim IS NOT NULL AND w.due_at > now() GROUP BY w.account_id
)
SELECT coalesce((
    SELECT job.id FROM work w JOIN running ON running.account_id = w.account_id JOIN fetch_job job ON job.id = w.key
    WHERE w.kind = sqlc.arg(kind) AND w.claim IS NOT NULL AND w.due_at > now() AND running.tasks > 1
      AND EXISTS (SELECT FROM runtime_instance holder WHERE holder.id = w.instance_id AND holder.lease_ends >= now())
    ORDER BY running.tasks DESC, job.bytes, job.id LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS yields
FROM work waiting
WHERE waiting.kind = sqlc.arg(kind) AND waiting.due_at <= now() - sqlc.arg(wait)::bigint * interval '1 microsecond'
  AND NOT EXISTS (SELECT FROM running WHERE running.account_id = waiting.account_id)
LIMIT 1;

-- name: UploadOfFetch :many
-- As ExpiredUploads, of one item.
SELECT upload.item_id, upload.account_id, account.bucket, upload.capability_id, coalesce(upload.opened_at <= (SELECT resumed_at FROM installation), false)::boolean AS keep_objects FROM upload JOIN account ON account.id = upload.account_id
WHERE upload.item_id = $1 FOR UPDATE OF upload;

-- name: BeginFetch :one
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
-- Ends jobs whose task has been due since the cutoff without a process that began it, and deletes jobs that ended before the cutoff; and the
-- tasks of both. A job that a process begins now is skipped: PostgreSQL compares a row that was changed before it was locked once more,
-- but with NOT EXISTS, which is planned as a join, it would not compare the process.
WITH overdue AS (
    UPDATE fetch_job SET state = 'failed', error_code = sqlc.arg(error_code)::text, error_text = sqlc.arg(error_text)::text, ended_at = now(), url = '', instance_id = NULL
    WHERE id = ANY (ARRAY(
        SELECT job.id FROM fetch_job job WHERE job.ended_at IS NULL AND job.created_at < sqlc.arg(cutoff)::timestamptz
          AND NOT coalesce((SELECT task.due_at >= sqlc.arg(cutoff)::timestamptz FROM work task WHERE task.kind = sqlc.arg(kind) AND task.key = job.id), false)
          AND NOT coalesce((SELECT holder.lease_ends >= now() FROM runtime_instance holder WHERE holder.id = job.instance_id), false)
        LIMIT sqlc.arg(batch)::int FOR UPDATE OF job SKIP LOCKED))
    RETURNING id
), purged AS (
    DELETE FROM fetch_job WHERE id = ANY (ARRAY(
        SELECT job.id FROM fetch_job job WHERE job.ended_at < sqlc.arg(cutoff)::timestamptz LIMIT sqlc.arg(batch)::int))
    RETURNING id
), changed AS (
    SELECT overdue.id FROM overdue UNION ALL SELECT purged.id FROM purged
), ended AS (
    DELETE FROM work WHERE work.kind = sqlc.arg(kind) AND work.key = ANY (ARRAY(SELECT changed.id FROM changed))
)
SELECT changed.id FROM changed;
