-- Locks are taken in the order work, work_turn, and both after all others: what adds a task does it last. now is that of the database,
-- except in tests.

-- name: AddTask :exec
INSERT INTO work (kind, key, account_id, due_at, expires_at, payload)
VALUES (sqlc.arg(kind), sqlc.arg(key), sqlc.arg(account_id), coalesce(sqlc.narg(due_at)::timestamptz, now()), sqlc.narg(expires_at)::timestamptz, sqlc.arg(payload))
ON CONFLICT (kind, key) DO NOTHING;

-- name: EnqueueOnce :execrows
-- Adds the only task of a kind, unless it is there. Most calls find it, and write nothing.
INSERT INTO work (kind, key, due_at)
SELECT sqlc.arg(kind)::text, '00000000-0000-0000-0000-000000000000', now() + sqlc.arg(delay)::bigint * interval '1 microsecond'
WHERE NOT EXISTS (SELECT FROM work w WHERE w.kind = sqlc.arg(kind)::text)
ON CONFLICT (kind, key) DO NOTHING;

-- name: LockClaims :exec
-- Serializes the claims of a kind, until the end of the transaction: they count the tasks that run.
SELECT pg_advisory_xact_lock(sqlc.arg(class)::int, hashtext(sqlc.arg(kind)::text));

-- name: ClaimTasks :many
-- waiting finds the accounts with tasks by one look into the index for each. turn has those that may be served, in their order, and
-- due has the next tasks of each: of accounts without a running task, the first one of each comes before the second one of any.
-- With those, the tasks of the accounts are claimed, most of each; else those of all others. The join is hashed, which ANY of a parameter is not.
WITH RECURSIVE waiting AS (
    (SELECT w.account_id FROM work w WHERE w.kind = sqlc.arg(kind) ORDER BY w.account_id LIMIT 1)
    UNION ALL
    SELECT (SELECT w.account_id FROM work w WHERE w.kind = sqlc.arg(kind) AND w.account_id > waiting.account_id ORDER BY w.account_id LIMIT 1)
    FROM waiting WHERE waiting.account_id IS NOT NULL
), turn AS MATERIALIZED (
    SELECT waiting.account_id, running.tasks, coalesce(t.served_at, 'epoch') AS served_at, coalesce(listed.most, sqlc.arg(batch)::int) AS most
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT count(*) AS tasks FROM work r
        WHERE r.kind = sqlc.arg(kind) AND r.account_id = waiting.account_id AND r.claim IS NOT NULL AND r.due_at > coalesce(sqlc.narg(now)::timestamptz, now())
    ) AS running
    LEFT JOIN (SELECT unnest(sqlc.arg(accounts)::uuid[]) AS account_id, unnest(sqlc.arg(most)::int[]) AS most) AS listed ON listed.account_id = waiting.account_id
    LEFT JOIN work_turn t ON t.kind = sqlc.arg(kind) AND t.account_id = waiting.account_id
    WHERE running.tasks < sqlc.arg(per_account)::int AND (listed.account_id IS NOT NULL) = sqlc.arg(those)::boolean AND coalesce(t.not_before, 'epoch') <= coalesce(sqlc.narg(now)::timestamptz, now())
      AND (NOT sqlc.arg(leased)::boolean OR EXISTS (SELECT FROM runtime_instance r WHERE r.id = sqlc.arg(own)::uuid AND r.lease_ends >= now()))
      AND EXISTS (SELECT FROM work d WHERE d.kind = sqlc.arg(kind) AND d.account_id = waiting.account_id AND d.due_at <= coalesce(sqlc.narg(now)::timestamptz, now()))
    ORDER BY running.tasks, served_at, waiting.account_id LIMIT sqlc.arg(batch)::int
), due AS MATERIALIZED (
    SELECT next.key, turn.account_id, turn.served_at, turn.tasks + row_number() OVER (PARTITION BY turn.account_id ORDER BY next.due_at, next.key) AS place
    FROM turn CROSS JOIN LATERAL (
        SELECT w.key, w.due_at FROM work w
        WHERE w.kind = sqlc.arg(kind) AND w.account_id = turn.account_id AND w.due_at <= coalesce(sqlc.narg(now)::timestamptz, now())
        ORDER BY w.due_at LIMIT least(sqlc.arg(batch)::int, turn.most, sqlc.arg(per_account)::int - turn.tasks) FOR UPDATE SKIP LOCKED
    ) AS next
), chosen AS MATERIALIZED (
    SELECT due.key, due.account_id FROM due ORDER BY due.place, due.served_at, due.account_id LIMIT sqlc.arg(batch)::int
), served AS (
    INSERT INTO work_turn (kind, account_id, served_at)
    SELECT sqlc.arg(kind), chosen.account_id, clock_timestamp() FROM chosen WHERE chosen.account_id <> '00000000-0000-0000-0000-000000000000'
    GROUP BY chosen.account_id ORDER BY chosen.account_id
    ON CONFLICT (kind, account_id) DO UPDATE SET served_at = excluded.served_at
)
UPDATE work SET claim = sqlc.arg(claim)::uuid, attempts = attempts + 1,
    instance_id = (SELECT r.id FROM runtime_instance r WHERE r.id = sqlc.arg(own)::uuid AND r.lease_ends >= now()),
    due_at = coalesce(sqlc.narg(now)::timestamptz, now()) + sqlc.arg(duration)::bigint * interval '1 microsecond'
WHERE work.kind = sqlc.arg(kind) AND work.key = ANY (ARRAY(SELECT chosen.key FROM chosen))
RETURNING work.key, work.account_id, work.attempts, work.payload, coalesce(work.expires_at <= coalesce(sqlc.narg(now)::timestamptz, now()), false)::boolean AS expired;

-- name: ClaimTask :many
-- Claims one task, whenever it is due, unless a process works on it, or leased is set and this process has no lease.
UPDATE work SET claim = sqlc.arg(claim)::uuid, attempts = attempts + 1,
    instance_id = (SELECT r.id FROM runtime_instance r WHERE r.id = sqlc.arg(own)::uuid AND r.lease_ends >= now()),
    due_at = now() + sqlc.arg(duration)::bigint * interval '1 microsecond'
WHERE work.kind = sqlc.arg(kind) AND work.key = sqlc.arg(key) AND (work.claim IS NULL OR work.due_at <= now())
    AND (NOT sqlc.arg(leased)::boolean OR EXISTS (SELECT FROM runtime_instance r WHERE r.id = sqlc.arg(own)::uuid AND r.lease_ends >= now()))
RETURNING work.account_id, work.attempts, work.payload, coalesce(work.expires_at <= now(), false)::boolean AS expired;

-- name: FinishTask :execrows
DELETE FROM work WHERE kind = sqlc.arg(kind) AND key = sqlc.arg(key) AND claim = sqlc.arg(claim)::uuid;

-- name: ReturnTask :one
-- Ends a claim. A task that would be due only after its time is removed. rest, in microseconds, puts off all tasks of its account and kind, and
-- ends no longer rest of another task. uncounted takes the attempt back that the claim has counted.
WITH expired AS (
    DELETE FROM work WHERE work.kind = sqlc.arg(kind) AND work.key = sqlc.arg(key) AND work.claim = sqlc.arg(claim)::uuid
        AND work.expires_at <= coalesce(sqlc.narg(now)::timestamptz, now()) + sqlc.arg(delay)::bigint * interval '1 microsecond'
    RETURNING work.key
), returned AS (
    UPDATE work SET claim = NULL, instance_id = NULL, due_at = coalesce(sqlc.narg(now)::timestamptz, now()) + sqlc.arg(delay)::bigint * interval '1 microsecond',
        attempts = CASE WHEN sqlc.arg(uncounted)::boolean THEN attempts - 1 ELSE attempts END, failure = CASE WHEN sqlc.arg(failure)::text = '' THEN failure ELSE sqlc.arg(failure)::text END
    WHERE work.kind = sqlc.arg(kind) AND work.key = sqlc.arg(key) AND work.claim = sqlc.arg(claim)::uuid
        AND (work.expires_at IS NULL OR work.expires_at > coalesce(sqlc.narg(now)::timestamptz, now()) + sqlc.arg(delay)::bigint * interval '1 microsecond')
    RETURNING work.key, work.kind, work.account_id
), rested AS (
    INSERT INTO work_turn (kind, account_id, served_at, not_before)
    SELECT returned.kind, returned.account_id, now(), coalesce(sqlc.narg(now)::timestamptz, now()) + sqlc.arg(rest)::bigint * interval '1 microsecond'
    FROM returned WHERE sqlc.arg(rest)::bigint > 0
    ON CONFLICT (kind, account_id) DO UPDATE SET not_before = greatest(work_turn.not_before, excluded.not_before)
)
SELECT EXISTS (SELECT FROM expired) AS expired, EXISTS (SELECT FROM returned) AS returned;

-- name: ReleaseTasks :execrows
-- Makes the tasks of dead processes due.
UPDATE work SET claim = NULL, instance_id = NULL, due_at = now()
WHERE kind = sqlc.arg(kind) AND claim IS NOT NULL AND due_at > now() AND process_ended(instance_id, sqlc.arg(own)::uuid);

-- name: PurgeTasks :execrows
-- Removes tasks that have expired and that no process works on.
DELETE FROM work WHERE ctid = ANY (ARRAY(
    SELECT w.ctid FROM work w WHERE w.expires_at < sqlc.arg(before)::timestamptz AND w.due_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED));

-- name: WaitingWork :many
-- What waits or runs, by kind. wait_seconds is for how long the oldest one has been due.
SELECT of.kind::text AS kind, count(work.key) AS tasks, count(work.key) FILTER (WHERE work.failure <> '') AS failing,
    coalesce(extract(epoch FROM now() - min(work.due_at) FILTER (WHERE work.due_at <= now())), 0)::float8 AS wait_seconds
FROM unnest(sqlc.arg(kinds)::text[]) AS of (kind) LEFT JOIN work ON work.kind = of.kind GROUP BY of.kind ORDER BY of.kind;
