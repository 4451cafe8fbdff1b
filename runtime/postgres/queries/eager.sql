-- Locks are taken in the order rendition_eager, rendition_queue. What seals, changes or deletes an item locks the item, then its
-- row of the queue, and never rendition_eager.
--
-- In an update, replicas with another encoder run beside each other. The rows of an account are left to the newest encoder that
-- has seen them: a process with an older one does nothing with them, unless it is alone, as after a return to an older
-- version. newest is the version of the newest encoder that may have seen what a process takes over: its own one, or any.

-- name: EagerWork :one
-- Reports what there is to do, so that an idle process does no more than this. alone: no process of another version is alive.
SELECT EXISTS (SELECT FROM rendition_queue) AS queued,
    EXISTS (SELECT FROM rendition_eager WHERE encoder <> sqlc.arg(encoder)::int OR changed <> seen) AS changed,
    EXISTS (SELECT FROM rendition_eager WHERE before_id IS NOT NULL) AS passes,
    NOT EXISTS (SELECT FROM runtime_instance r WHERE r.lease_ends >= now()
        AND r.version IS DISTINCT FROM (SELECT o.version FROM runtime_instance o WHERE o.id = sqlc.arg(own)::uuid)) AS alone;

-- name: ChangedEager :many
-- A page, of accounts whose ids are after the given one.
SELECT account_id, changed FROM rendition_eager WHERE account_id > sqlc.arg(after)::uuid AND encoder <= sqlc.arg(newest)::int
    AND (encoder <> sqlc.arg(encoder)::int OR changed <> seen)
ORDER BY account_id LIMIT sqlc.arg(page)::int;

-- name: SeeEager :execrows
-- Records what is made in advance, unless the presets changed again. Other recipes begin a pass.
UPDATE rendition_eager SET seen = changed, encoder = sqlc.arg(encoder)::int, recipes = sqlc.narg(recipes)::bytea, not_before = 'epoch',
    before_id = CASE WHEN recipes IS NOT DISTINCT FROM sqlc.narg(recipes)::bytea THEN before_id
        WHEN sqlc.narg(recipes)::bytea IS NOT NULL THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid END,
    passed = CASE WHEN recipes IS NOT DISTINCT FROM sqlc.narg(recipes)::bytea THEN passed ELSE 0 END
WHERE account_id = sqlc.arg(account_id)::uuid AND changed = sqlc.arg(changed)::bigint AND encoder <= sqlc.arg(newest)::int;

-- name: ClearEager :execrows
-- Ends a batch of the queue of an account without eager presets. If it gets some again, a pass begins. An array, so that the rows are
-- looked up one by one.
DELETE FROM rendition_queue WHERE item_id = ANY (ARRAY(
    SELECT q.item_id FROM rendition_queue q WHERE q.account_id = sqlc.arg(account_id)::uuid LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED));

-- name: FillEager :execrows
-- Queues the next images of a pass whose last ones are done.
WITH pass AS MATERIALIZED (
    SELECT e.account_id, e.before_id FROM rendition_eager e JOIN account ON account.id = e.account_id AND account.closed_at IS NULL AND NOT account.suspended
    WHERE e.before_id IS NOT NULL AND e.not_before <= now() AND e.encoder <= sqlc.arg(encoder)::int AND NOT EXISTS (SELECT FROM rendition_queue q WHERE q.account_id = e.account_id AND q.rebuild)
    LIMIT 1 FOR NO KEY UPDATE OF e SKIP LOCKED
), page AS MATERIALIZED (
    SELECT i.id, pass.account_id, i.image FROM pass CROSS JOIN LATERAL (
        SELECT s.id, item_file_type(s.objects) LIKE 'image/%' AS image FROM stored_item s
        WHERE s.account_id = pass.account_id AND s.id < pass.before_id AND s.sealed_at IS NOT NULL AND s.deleted_at IS NULL
        ORDER BY s.id DESC LIMIT sqlc.arg(page)::int) AS i
), queued AS (
    INSERT INTO rendition_queue (item_id, account_id, rebuild) SELECT page.id, page.account_id, true FROM page WHERE page.image
    ON CONFLICT (item_id) DO NOTHING
)
UPDATE rendition_eager SET passed = passed + (SELECT count(*) FROM page),
    before_id = CASE WHEN (SELECT count(*) FROM page) = sqlc.arg(page)::int THEN (SELECT (array_agg(page.id ORDER BY page.id))[1] FROM page) END
FROM pass WHERE rendition_eager.account_id = pass.account_id;

-- name: ClaimEager :one
-- Claims an item of the account, of those with items that are due, that was served the longest time ago. What was sealed comes before what a pass
-- has queued. The condition of the encoder is that of the row that is updated, too: SeeEager may run at the same time.
WITH RECURSIVE waiting AS (
    (SELECT q.account_id FROM rendition_queue q ORDER BY q.account_id LIMIT 1)
    UNION ALL
    SELECT (SELECT q.account_id FROM rendition_queue q WHERE q.account_id > waiting.account_id ORDER BY q.account_id LIMIT 1) FROM waiting WHERE waiting.account_id IS NOT NULL
), chosen AS (
    UPDATE rendition_eager SET served_at = clock_timestamp() WHERE rendition_eager.encoder <= sqlc.arg(encoder)::int AND rendition_eager.account_id = (
        SELECT e.account_id FROM waiting JOIN account ON account.id = waiting.account_id AND account.closed_at IS NULL AND NOT account.suspended
        JOIN rendition_eager e ON e.account_id = account.id AND e.not_before <= now() AND e.encoder <= sqlc.arg(encoder)::int
        WHERE EXISTS (SELECT FROM rendition_queue q WHERE q.account_id = e.account_id AND q.due_at <= now())
        ORDER BY e.served_at LIMIT 1)
    RETURNING rendition_eager.account_id, rendition_eager.changed
), next AS MATERIALIZED (
    SELECT q.item_id, chosen.changed FROM chosen JOIN rendition_queue q ON q.account_id = chosen.account_id
    WHERE q.due_at <= now() ORDER BY q.rebuild, q.due_at LIMIT 1 FOR UPDATE OF q SKIP LOCKED
)
UPDATE rendition_queue SET claim = sqlc.arg(claim)::uuid, due_at = now() + sqlc.arg(lease)::bigint * interval '1 microsecond', attempts = attempts + 1
FROM next WHERE rendition_queue.item_id = next.item_id
RETURNING rendition_queue.item_id, rendition_queue.account_id, rendition_queue.attempts, next.changed;

-- name: FinishEager :execrows
-- Ends a claim and its row. If the presets have changed since the claim, or a newer encoder has begun a pass, which has found the item in the
-- queue, the item is due again. The lock keeps both from happening meanwhile.
WITH current AS MATERIALIZED (
    SELECT e.account_id FROM rendition_eager e
    WHERE e.account_id = sqlc.arg(account_id)::uuid AND e.changed = sqlc.arg(changed)::bigint AND e.encoder <= sqlc.arg(encoder)::int FOR SHARE
), done AS (
    DELETE FROM rendition_queue q USING current
    WHERE q.item_id = sqlc.arg(item_id)::uuid AND q.claim = sqlc.arg(claim)::uuid AND q.account_id = current.account_id
    RETURNING q.item_id
)
UPDATE rendition_queue SET claim = NULL, due_at = now(), attempts = 0
WHERE item_id = sqlc.arg(item_id)::uuid AND claim = sqlc.arg(claim)::uuid AND NOT EXISTS (SELECT FROM done);

-- name: ReturnEager :exec
-- Ends a claim; the item is due again after the delay. A pass does not wait for it.
UPDATE rendition_queue SET claim = NULL, rebuild = rebuild AND NOT sqlc.arg(failed)::boolean, due_at = now() + sqlc.arg(delay)::bigint * interval '1 microsecond',
    attempts = CASE WHEN sqlc.arg(failed)::boolean THEN attempts ELSE greatest(attempts - 1, 0) END
WHERE item_id = sqlc.arg(item_id)::uuid AND claim = sqlc.arg(claim)::uuid;

-- name: PauseEager :exec
UPDATE rendition_eager SET not_before = now() + sqlc.arg(delay)::bigint * interval '1 microsecond' WHERE account_id = sqlc.arg(account_id)::uuid;

-- name: MadeRenditions :many
-- The renditions of an item, of these keys, that are stored or being made.
SELECT key, (NOT ready AND NOT rendition_claim_ended(instance_id, lease_ends, sqlc.arg(own)::uuid))::boolean AS making, ready FROM rendition
WHERE item_id = sqlc.arg(item_id)::uuid AND key = ANY (sqlc.arg(keys)::bytea[]);

-- name: EagerQueue :one
-- Counts up to a limit.
SELECT count(*) FROM (SELECT FROM rendition_queue LIMIT sqlc.arg(most)::int) AS counted;

-- name: EagerPending :one
-- Reads the queue and counters: those of sealed items, less what the pass has seen. Before a change was looked at, all items may be pending.
SELECT (
    (SELECT count(*) FROM rendition_queue WHERE rendition_queue.account_id = e.account_id)
    + CASE WHEN e.changed <> e.seen OR e.before_id IS NOT NULL THEN greatest(0,
        (SELECT coalesce(sum(t.public_items + t.private_items), 0) FROM app_total t WHERE t.account_id = e.account_id) - CASE WHEN e.changed <> e.seen THEN 0 ELSE e.passed END)
      ELSE 0 END)::bigint
FROM rendition_eager e WHERE e.account_id = $1;

-- name: EagerWaiting :many
-- The open accounts with items of which pictures may have to be made.
SELECT account.namespace, account.name FROM rendition_eager e JOIN account ON account.id = e.account_id AND account.closed_at IS NULL
WHERE (sqlc.narg(namespaces)::text[] IS NULL OR account.namespace = ANY (sqlc.narg(namespaces)::text[]))
    AND (e.changed <> e.seen OR e.before_id IS NOT NULL OR EXISTS (SELECT FROM rendition_queue q WHERE q.account_id = e.account_id));
