-- name: RegisterWriter :one
-- Records that a process stores objects of an account in a bucket. Returns no row if the process has no lease, or there is no account.
INSERT INTO upload_writer (instance_id, account_id, bucket, since)
SELECT r.id, account.id, sqlc.arg(bucket)::text, sqlc.arg(since)::uuid
FROM runtime_instance r JOIN account ON account.id = sqlc.arg(account_id)::uuid WHERE r.id = sqlc.arg(instance_id)::uuid AND r.lease_ends >= now()
RETURNING number;

-- name: RemoveWriters :exec
-- Ends the registrations of a process that have no object without an item. One that was ended stays until its bucket was searched.
DELETE FROM upload_writer WHERE number = ANY (sqlc.arg(numbers)::bigint[]) AND instance_id = sqlc.arg(own)::uuid AND ended_at IS NULL;

-- name: CommitStored :many
-- Makes items of objects that are stored, and takes their bytes under the cap: all of an account, or none of it if they exceed its
-- storage cap. Returns the items. It waits for a change of the fence, and for the end of the writer, and reads what they have become.
-- A file whose key has ended, or whose account is suspended, is left out; the key zero is not looked at. The keys of apps and accounts
-- that are closed end with them. If both were looked up, PostgreSQL would expect that one plan for all calls costs more than a new plan
-- for each, which takes longer than the statement.
-- The rows of the usage are locked in the order of the accounts, as in OpenUploads. After a restore the number of a writer may be given
-- again, so each statement also compares the process.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), writing AS MATERIALIZED (
    SELECT w.number, w.fence, w.ended_at, w.instance_id, w.account_id FROM timeout_set, upload_writer w WHERE w.number = ANY (sqlc.arg(writers)::bigint[])
    ORDER BY w.number FOR SHARE OF w
), valid AS MATERIALIZED (
    SELECT k.id FROM api_key k
    WHERE k.id = ANY (sqlc.arg(key_ids)::uuid[]) AND (k.expires_at IS NULL OR k.expires_at > now())
    UNION ALL
    SELECT '00000000-0000-0000-0000-000000000000'
), files AS MATERIALIZED (
    SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(account_ids)::uuid[]) AS account_id, unnest(sqlc.arg(app_ids)::uuid[]) AS app_id,
        unnest(sqlc.arg(writers)::bigint[]) AS writer, unnest(sqlc.arg(fences)::bigint[]) AS fence, unnest(sqlc.arg(key_ids)::uuid[]) AS key_id,
        unnest(sqlc.arg(file_names)::text[]) AS file_name, unnest(sqlc.arg(accesses)::text[]) AS access,
        unnest(sqlc.arg(captions)::text[]) AS caption, unnest(sqlc.arg(groups)::text[]) AS group_label, unnest(sqlc.arg(objects)::text[]) AS objects,
        unnest(sqlc.arg(bytes)::bigint[]) AS bytes, unnest(sqlc.arg(created_at)::timestamptz[]) AS created_at, unnest(sqlc.arg(metadata)::text[]) AS metadata,
        unnest(sqlc.arg(widths)::int[]) AS width, unnest(sqlc.arg(heights)::int[]) AS height, unnest(sqlc.arg(placeholders)::bytea[]) AS placeholder, unnest(sqlc.arg(dominant_colors)::text[]) AS dominant_color,
        unnest(sqlc.arg(refs)::text[]) AS ref, unnest(sqlc.arg(durations)::bigint[]) AS duration_ms, unnest(sqlc.arg(pages)::int[]) AS pages, unnest(sqlc.arg(derivatives)::smallint[]) AS derivatives_state, unnest(sqlc.arg(gates)::smallint[]) AS gate_state, unnest(sqlc.arg(captures)::text[]) AS capture, unnest(sqlc.arg(actors)::text[]) AS actor
), requested AS MATERIALIZED (
    SELECT files.* FROM files JOIN writing ON writing.number = files.writer AND writing.fence = files.fence AND writing.ended_at IS NULL
        AND writing.instance_id = sqlc.arg(own)::uuid AND writing.account_id = files.account_id
    WHERE files.key_id IN (SELECT valid.id FROM valid)
), wanted AS MATERIALIZED (
    SELECT requested.account_id, sum(requested.bytes)::bigint AS bytes FROM requested GROUP BY requested.account_id
), locked AS MATERIALIZED (
    SELECT account_usage.account_id, wanted.bytes FROM wanted JOIN account_usage ON account_usage.account_id = wanted.account_id
    ORDER BY account_usage.account_id FOR UPDATE OF account_usage
), increased AS (
    UPDATE account_usage SET bytes = account_usage.bytes + locked.bytes
    FROM locked JOIN account ON account.id = locked.account_id
    WHERE account_usage.account_id = locked.account_id AND account_usage.bytes + locked.bytes <= account.max_storage AND NOT account.suspended
    RETURNING account_usage.account_id, account.journal_retention
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT requested.account_id, requested.app_id, requested.id, 1, 'media.uploaded', requested.group_label, requested.actor
    FROM requested JOIN increased ON increased.account_id = requested.account_id AND increased.journal_retention IS NOT NULL
)
INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at,
    metadata, width, height, placeholder, duration_ms, pages, ref, dominant_color, derivatives_state, gate_state, capture, facts_version)
SELECT requested.id, requested.account_id, requested.app_id, requested.file_name, requested.access, requested.caption, requested.group_label, requested.objects::jsonb, requested.bytes, requested.created_at,
    requested.metadata::jsonb, nullif(requested.width, 0), nullif(requested.height, 0), requested.placeholder, nullif(requested.duration_ms, 0), nullif(requested.pages, 0), requested.ref, nullif(requested.dominant_color, ''), coalesce(requested.derivatives_state, 0), coalesce(requested.gate_state, 0), nullif(requested.capture, '')::jsonb, 3
FROM requested JOIN increased ON increased.account_id = requested.account_id
RETURNING id;

-- name: LockWriter :one
-- Keeps a writer from ending, and its fence from changing, until the end of the transaction.
SELECT fence FROM upload_writer WHERE number = sqlc.arg(number) AND instance_id = sqlc.arg(own)::uuid AND account_id = sqlc.arg(account_id) AND ended_at IS NULL FOR SHARE;

-- name: KeyIsValid :one
SELECT EXISTS (SELECT FROM api_key
    JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
    JOIN account ON account.id = api_key.account_id AND account.closed_at IS NULL AND NOT account.suspended
    WHERE api_key.id = $1 AND (api_key.expires_at IS NULL OR api_key.expires_at > now()));

-- name: RaiseFence :one
-- Waits for the commits that name the fence, and rejects all later ones that name a smaller one.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
)
UPDATE upload_writer SET fence = upload_writer.fence + 1 FROM timeout_set WHERE upload_writer.number = sqlc.arg(number) AND upload_writer.instance_id = sqlc.arg(own)::uuid RETURNING upload_writer.fence;

-- name: EndWriters :exec
-- Ends the writers of dead processes. Commits of such a process that are executed are waited for, by the next call.
WITH RECURSIVE processes AS (
    (SELECT w.instance_id FROM upload_writer w WHERE w.ended_at IS NULL ORDER BY w.instance_id LIMIT 1)
    UNION ALL
    SELECT (SELECT w.instance_id FROM upload_writer w WHERE w.ended_at IS NULL AND w.instance_id > processes.instance_id ORDER BY w.instance_id LIMIT 1)
    FROM processes WHERE processes.instance_id IS NOT NULL
)
UPDATE upload_writer SET ended_at = now() WHERE number = ANY (ARRAY(
    SELECT of_process.number FROM processes CROSS JOIN LATERAL (
        SELECT w.number FROM upload_writer w WHERE w.instance_id = processes.instance_id AND w.ended_at IS NULL
        LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED
    ) AS of_process
    WHERE process_ended(processes.instance_id, sqlc.arg(own)::uuid)));

-- name: EnqueueSearches :execrows
-- Adds a task for each account with writers that have ended, unless it has one. It is due when the last write of such a process is over.
INSERT INTO work (kind, key, account_id, due_at)
SELECT sqlc.arg(kind)::text, w.account_id, w.account_id, min(w.ended_at) + sqlc.arg(grace)::bigint * interval '1 microsecond'
FROM upload_writer w WHERE w.ended_at IS NOT NULL GROUP BY w.account_id
ON CONFLICT (kind, key) DO NOTHING;

-- name: EndedWriters :many
-- The writers of an account whose buckets may be searched. Objects of before a restore may be of an item that the restore lost: they stay.
SELECT number, bucket, since, coalesce(registered_at <= (SELECT resumed_at FROM installation), false)::boolean AS keep_objects FROM upload_writer
WHERE account_id = $1 AND ended_at <= now() - sqlc.arg(grace)::bigint * interval '1 microsecond' ORDER BY bucket, number;

-- name: QueueUnrecorded :many
-- Queues the removal of those objects of writers that have ended that no item has. Returns their keys. Each object is of the item of the
-- same place.
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
SELECT sqlc.arg(account_id)::uuid, sqlc.arg(bucket)::text, array_agg(found.key), false, now()
FROM (SELECT unnest(sqlc.arg(item_ids)::uuid[]) AS item_id, unnest(sqlc.arg(keys)::text[]) AS key) AS found
WHERE (SELECT i.id FROM stored_item i WHERE i.account_id = sqlc.arg(account_id)::uuid AND i.id = found.item_id
    AND i.objects @> jsonb_build_array(jsonb_build_object('key', found.key)) LIMIT 1) IS NULL
    AND NOT EXISTS (SELECT FROM quarantine q WHERE q.item_id = found.item_id AND q.objects @> jsonb_build_array(jsonb_build_object('key', found.key)))
GROUP BY found.item_id
RETURNING keys;

-- name: ForgetWriters :exec
-- Deletes writers whose buckets were searched.
DELETE FROM upload_writer WHERE account_id = $1 AND number = ANY (sqlc.arg(numbers)::bigint[]) AND ended_at IS NOT NULL;
