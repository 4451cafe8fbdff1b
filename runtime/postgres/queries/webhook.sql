-- Webhooks. Locks are taken in the order webhook, webhook_progress, work, work_turn.

-- name: PublishWebhookKey :exec
-- The operator encrypts with the key that was published last. Nothing is written if it is this one, unless its process is dead. Another one is
-- published if begins is set, or if its process is dead: one with a wrong secret that has started and ended must not be the last one.
INSERT INTO webhook_key (id, public_key, published_at, instance_id)
SELECT sqlc.arg(id), sqlc.arg(public_key), clock_timestamp(), sqlc.arg(own)::uuid
WHERE coalesce((
    SELECT sqlc.arg(begins)::boolean AND k.id <> sqlc.arg(id)::text OR NOT EXISTS (SELECT FROM runtime_instance r WHERE r.id = k.instance_id AND r.lease_ends >= now())
    FROM webhook_key k ORDER BY k.published_at DESC LIMIT 1), true)
ON CONFLICT (id) DO UPDATE SET published_at = excluded.published_at, instance_id = excluded.instance_id;

-- name: WebhookKey :one
SELECT id, public_key FROM webhook_key ORDER BY published_at DESC LIMIT 1;

-- name: StoredWebhook :one
-- What is compared before a webhook is written. An object of the same name may have been made again.
SELECT object_uid, generation, account_id, types, apps, groups, format, suspended, target_digest, public_key, test, replay, replay_since, replay_events
FROM webhook WHERE namespace = sqlc.arg(namespace) AND name = sqlc.arg(name);

-- name: OpenAccount :one
SELECT EXISTS (SELECT FROM account WHERE id = $1 AND closed_at IS NULL);

-- name: PutWebhook :one
INSERT INTO webhook (id, namespace, name, object_uid, generation, account_id, types, apps, groups, format, suspended, target, target_digest, public_key, test, replay, replay_since, replay_events)
VALUES (sqlc.arg(id), sqlc.arg(namespace), sqlc.arg(name), sqlc.arg(object_uid), sqlc.arg(generation), sqlc.narg(account_id), sqlc.arg(types), sqlc.arg(apps), sqlc.arg(groups), sqlc.arg(format),
    sqlc.arg(suspended), sqlc.arg(target), sqlc.arg(target_digest), sqlc.arg(public_key), sqlc.arg(test), sqlc.arg(replay), sqlc.narg(replay_since), sqlc.arg(replay_events))
ON CONFLICT (namespace, name) DO UPDATE SET object_uid = excluded.object_uid, generation = excluded.generation, account_id = excluded.account_id, types = excluded.types, apps = excluded.apps,
    groups = excluded.groups, format = excluded.format, suspended = excluded.suspended, target = excluded.target, target_digest = excluded.target_digest, public_key = excluded.public_key,
    test = excluded.test, replay = excluded.replay, replay_since = excluded.replay_since, replay_events = excluded.replay_events
RETURNING id;

-- name: BeginWebhook :exec
-- A webhook begins with the transactions that run now. One that its receiver has ended begins again with a later generation of its object,
-- and so does that of an object that was made again, whose generations begin again. One of another account begins with the events of that.
INSERT INTO webhook_progress (webhook_id, epoch, xid, event_id)
SELECT sqlc.arg(webhook_id), journal_epoch(), journal_oldest() - 1, 9223372036854775807
ON CONFLICT (webhook_id) DO UPDATE SET epoch = excluded.epoch, xid = excluded.xid, event_id = excluded.event_id, read_at = NULL, seen_at = now(), full_queue = false,
    ended_generation = NULL, failures = 0, failing_since = NULL
WHERE webhook_progress.ended_generation < sqlc.arg(generation)::bigint OR sqlc.arg(moved)::boolean
    OR webhook_progress.ended_generation IS NOT NULL AND sqlc.arg(made_again)::boolean;

-- name: WakeWebhook :exec
-- Lets the deliveries of a webhook run that wait since it was suspended, or since its receiver failed. The attempt that is brought forward does
-- not count.
WITH turn AS (
    UPDATE work_turn SET not_before = 'epoch' WHERE work_turn.kind = 'webhook' AND work_turn.account_id = sqlc.arg(webhook_id) AND work_turn.not_before > now()
)
UPDATE work SET due_at = now(), attempts = greatest(work.attempts - 1, 0)
WHERE work.kind = 'webhook' AND work.account_id = sqlc.arg(webhook_id) AND work.claim IS NULL AND work.due_at > now();

-- name: RemoveWebhook :exec
DELETE FROM webhook WHERE object_uid = sqlc.arg(object_uid);

-- name: WebhookStates :many
-- The state of all webhooks, or of one. A delivery that waits for its next attempt is pending, too. Payloads begin with the time of the event.
SELECT w.object_uid, w.namespace, w.name, p.full_queue, p.last_attempt_at, p.last_success_at, p.last_status, p.last_error, p.failing_since,
    coalesce(p.ended_generation >= w.generation, false)::boolean AS ended, p.missed_until, (w.account_id IS NULL OR a.journal_retention IS NOT NULL)::boolean AS journal,
    p.tested, p.replayed, p.replay_error, pending.deliveries::bigint AS pending, pending.oldest::bytea AS oldest,
    coalesce(w.public_key <> (SELECT k.id FROM webhook_key k ORDER BY k.published_at DESC LIMIT 1), false)::boolean AS former_key
FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id LEFT JOIN account a ON a.id = w.account_id
LEFT JOIN LATERAL (
    SELECT count(*) AS deliveries, (array_agg(substring(work.payload FROM 1 FOR 8) ORDER BY substring(work.payload FROM 1 FOR 8)))[1] AS oldest
    FROM work WHERE work.kind = 'webhook' AND work.account_id = w.id
) AS pending ON true
WHERE (sqlc.narg(object_uid)::text IS NULL OR w.object_uid = sqlc.narg(object_uid)::text)
    AND (cardinality(sqlc.arg(namespaces)::text[]) = 0 OR w.namespace = ANY (sqlc.arg(namespaces)::text[]))
ORDER BY w.namespace, w.name;

-- name: WebhookAttempts :many
SELECT t.at, t.event_id, t.type, t.number, t.status, t.error, t.milliseconds FROM webhook_attempt t JOIN webhook w ON w.id = t.webhook_id
WHERE w.object_uid = sqlc.arg(object_uid) ORDER BY t.at DESC, t.slot DESC;

-- name: WebhooksWithNews :many
-- The webhooks for which there is something to do: an event after their place, or a request of an admin. Those of which the queue is full
-- have nothing to do until half of it is empty. seen has those that are at the end of the journal; once in a while this is recorded. It needs the
-- settings of inOrder: an EXISTS would read all events of an account. The
-- condition of the type is that of the index of all accounts.
WITH place AS MATERIALIZED (
    SELECT journal_epoch() AS epoch, journal_oldest() AS oldest
), active AS MATERIALIZED (
    SELECT w.id, w.account_id, p.epoch, p.xid, p.event_id, p.seen_at, coalesce(p.read_at, p.seen_at) - interval '1 day' AS since, w.test <> p.tested OR w.replay <> p.replayed AS asked
    FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id
    WHERE NOT w.suspended AND coalesce(p.ended_generation < w.generation, true)
        AND (NOT p.full_queue OR (SELECT count(*) FROM work WHERE work.kind = 'webhook' AND work.account_id = w.id) <= sqlc.arg(most)::bigint / 2)
), news AS MATERIALIZED (
    SELECT active.id FROM active CROSS JOIN place WHERE active.asked OR CASE WHEN active.account_id IS NULL THEN coalesce((
        SELECT j.id FROM journal j WHERE (j.epoch, j.xid, j.id) > (active.epoch, active.xid, active.event_id) AND j.epoch < place.epoch AND j.at >= active.since AND j.type <> ''
        ORDER BY j.epoch, j.xid, j.id LIMIT 1
    ), (
        SELECT j.id FROM journal j WHERE j.epoch = place.epoch AND j.xid < place.oldest AND (j.xid, j.id) > (CASE WHEN active.epoch < place.epoch THEN -1 WHEN active.epoch = place.epoch THEN active.xid END, active.event_id)
            AND j.at >= active.since AND j.type <> ''
        ORDER BY j.epoch, j.xid, j.id LIMIT 1
    )) ELSE coalesce((
        SELECT j.id FROM journal j WHERE j.account_id = active.account_id AND (j.epoch, j.xid, j.id) > (active.epoch, active.xid, active.event_id) AND j.epoch < place.epoch AND j.at >= active.since
        ORDER BY j.epoch, j.xid, j.id LIMIT 1
    ), (
        SELECT j.id FROM journal j WHERE j.account_id = active.account_id AND j.epoch = place.epoch AND j.xid < place.oldest
            AND (j.xid, j.id) > (CASE WHEN active.epoch < place.epoch THEN -1 WHEN active.epoch = place.epoch THEN active.xid END, active.event_id) AND j.at >= active.since
        ORDER BY j.epoch, j.xid, j.id LIMIT 1
    )) END IS NOT NULL
), seen AS (
    UPDATE webhook_progress p SET seen_at = now() FROM active
    WHERE p.webhook_id = active.id AND active.seen_at < now() - interval '10 minutes' AND NOT EXISTS (SELECT FROM news WHERE news.id = active.id) AND NOT p.full_queue
)
SELECT news.id FROM news ORDER BY news.id;

-- name: LockWebhook :many
-- A webhook and its place. Another process that looks at it, or records an attempt, has it now if there is no row. Transactions from oldest on
-- may still run, and no event is read that is older than cutoff.
SELECT w.id, w.account_id, w.types, w.apps, w.groups, w.format, w.test, w.replay, w.replay_since, w.replay_events, p.epoch, p.xid, p.event_id, p.read_at, p.seen_at, p.tested, p.replayed,
    (SELECT count(*) FROM work WHERE work.kind = 'webhook' AND work.account_id = w.id)::bigint AS deliveries,
    journal_epoch()::bigint AS journal_epoch, journal_oldest()::bigint AS oldest, now()::timestamptz AS now,
    (now() - coalesce((SELECT max(a.journal_retention) FROM account a WHERE w.account_id IS NULL OR a.id = w.account_id), 0) * interval '1 second')::timestamptz AS cutoff,
    coalesce(of.namespace, '')::text AS account_namespace, coalesce(of.name, '')::text AS account_name
FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id LEFT JOIN account of ON of.id = w.account_id
WHERE w.id = sqlc.arg(id) AND NOT w.suspended AND coalesce(p.ended_generation < w.generation, true)
FOR NO KEY UPDATE OF p SKIP LOCKED;

-- name: WebhookEvents :many
-- Events of an account after a place, in their order, in two parts as in Events. It needs the settings of inOrder.
SELECT e.id, e.at, e.epoch, e.xid, e.account_id, e.app_id, e.item_id, e.sequence, e.type, e.group_label, e.actor, e.fields,
    coalesce(a.namespace, '')::text AS namespace, coalesce(a.name, '')::text AS name, coalesce(app.name, '')::text AS app
FROM (
    SELECT b.* FROM (
        (SELECT j.* FROM journal j
        WHERE j.account_id = sqlc.arg(account_id) AND j.at >= sqlc.arg(since)::timestamptz
            AND (j.epoch, j.xid, j.id) > (sqlc.arg(after_epoch)::bigint, sqlc.arg(after_xid)::bigint, sqlc.arg(after_id)::bigint) AND j.epoch < sqlc.arg(epoch)::bigint
        ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(most)::int)
        UNION ALL
        (SELECT j.* FROM journal j
        WHERE j.account_id = sqlc.arg(account_id) AND j.at >= sqlc.arg(since)::timestamptz AND j.epoch = sqlc.arg(epoch)::bigint AND j.xid < sqlc.arg(oldest)::bigint
            AND (j.xid, j.id) > (CASE WHEN sqlc.arg(after_epoch)::bigint < sqlc.arg(epoch)::bigint THEN -1 WHEN sqlc.arg(after_epoch)::bigint = sqlc.arg(epoch)::bigint THEN sqlc.arg(after_xid)::bigint END, sqlc.arg(after_id)::bigint)
        ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(most)::int)
    ) AS b
    ORDER BY b.epoch, b.xid, b.id LIMIT sqlc.arg(most)::int
) AS e LEFT JOIN account a ON a.id = e.account_id LEFT JOIN app ON app.id = e.app_id
ORDER BY e.epoch, e.xid, e.id;

-- name: WebhookEventsOfAll :many
-- WebhookEvents of all accounts. The condition of the type is that of the index.
SELECT e.id, e.at, e.epoch, e.xid, e.account_id, e.app_id, e.item_id, e.sequence, e.type, e.group_label, e.actor, e.fields,
    coalesce(a.namespace, '')::text AS namespace, coalesce(a.name, '')::text AS name, coalesce(app.name, '')::text AS app
FROM (
    SELECT b.* FROM (
        (SELECT j.* FROM journal j
        WHERE j.at >= sqlc.arg(since)::timestamptz AND j.type <> ''
            AND (j.epoch, j.xid, j.id) > (sqlc.arg(after_epoch)::bigint, sqlc.arg(after_xid)::bigint, sqlc.arg(after_id)::bigint) AND j.epoch < sqlc.arg(epoch)::bigint
        ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(most)::int)
        UNION ALL
        (SELECT j.* FROM journal j
        WHERE j.at >= sqlc.arg(since)::timestamptz AND j.type <> '' AND j.epoch = sqlc.arg(epoch)::bigint AND j.xid < sqlc.arg(oldest)::bigint
            AND (j.xid, j.id) > (CASE WHEN sqlc.arg(after_epoch)::bigint < sqlc.arg(epoch)::bigint THEN -1 WHEN sqlc.arg(after_epoch)::bigint = sqlc.arg(epoch)::bigint THEN sqlc.arg(after_xid)::bigint END, sqlc.arg(after_id)::bigint)
        ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(most)::int)
    ) AS b
    ORDER BY b.epoch, b.xid, b.id LIMIT sqlc.arg(most)::int
) AS e LEFT JOIN account a ON a.id = e.account_id LEFT JOIN app ON app.id = e.app_id
ORDER BY e.epoch, e.xid, e.id;

-- name: EventsByID :many
-- Events with these epochs and ids, of an account or of all. It reads all events since then that the journal has. It needs a custom plan.
SELECT e.id, e.at, e.epoch, e.xid, e.account_id, e.app_id, e.item_id, e.sequence, e.type, e.group_label, e.actor, e.fields,
    coalesce(a.namespace, '')::text AS namespace, coalesce(a.name, '')::text AS name, coalesce(app.name, '')::text AS app
FROM journal e LEFT JOIN account a ON a.id = e.account_id LEFT JOIN app ON app.id = e.app_id
WHERE (sqlc.narg(account_id)::uuid IS NULL OR e.account_id = sqlc.narg(account_id)::uuid) AND e.at >= sqlc.arg(since)::timestamptz
    AND (e.epoch, e.id) IN (SELECT unnest(sqlc.arg(epochs)::bigint[]), unnest(sqlc.arg(ids)::bigint[]))
ORDER BY e.epoch, e.xid, e.id;

-- name: FirstEventSince :many
-- The first event, in the order of the journal, of those that are not older, of an account or of all. It needs a custom plan.
SELECT j.epoch, j.xid, j.id FROM journal j
WHERE (sqlc.narg(account_id)::uuid IS NULL OR j.account_id = sqlc.narg(account_id)::uuid) AND j.at >= sqlc.arg(since)::timestamptz
ORDER BY j.epoch, j.xid, j.id LIMIT 1;

-- name: AddDeliveries :execrows
-- A delivery that is pending is not added again.
INSERT INTO work (kind, key, account_id, due_at, payload)
SELECT 'webhook', unnest(sqlc.arg(keys)::uuid[]), sqlc.arg(webhook_id)::uuid, unnest(sqlc.arg(due_at)::timestamptz[]), unnest(sqlc.arg(payloads)::bytea[])
ON CONFLICT (kind, key) DO NOTHING;

-- name: MoveWebhook :exec
UPDATE webhook_progress SET epoch = sqlc.arg(epoch), xid = sqlc.arg(xid), event_id = sqlc.arg(event_id), read_at = coalesce(sqlc.narg(read_at)::timestamptz, read_at), seen_at = sqlc.arg(seen_at),
    full_queue = sqlc.arg(full_queue), missed_until = coalesce(sqlc.narg(missed_until)::timestamptz, missed_until), tested = sqlc.arg(tested), replayed = sqlc.arg(replayed),
    replay_error = CASE WHEN sqlc.arg(replayed) = replayed THEN replay_error ELSE sqlc.arg(replay_error) END
WHERE webhook_id = sqlc.arg(webhook_id);

-- name: WebhooksApart :many
-- The webhooks with deliveries whose last attempt took long, and those that are encrypted for a key that is none of keys.
SELECT w.id, w.account_id, p.slow, (w.public_key <> ALL (sqlc.arg(keys)::text[]))::boolean AS foreign_key
FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id
WHERE w.id IN (
    SELECT slow.webhook_id FROM webhook_progress slow WHERE slow.slow AND EXISTS (SELECT FROM work WHERE work.kind = 'webhook' AND work.account_id = slow.webhook_id)
    UNION SELECT other.id FROM webhook other WHERE other.public_key <> ALL (sqlc.arg(keys)::text[])
);

-- name: WebhookReceiver :one
-- What a delivery needs.
SELECT w.account_id, w.generation, w.suspended, w.public_key, w.target, w.target_digest, p.failures, coalesce(p.ended_generation >= w.generation, false)::boolean AS ended
FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id WHERE w.id = $1;

-- name: RecordWebhookAttempt :one
-- Records an attempt, in the slot of the oldest one. recovered: the receiver accepts again, after it had failed for longer than failing_for,
-- in microseconds. A receiver ends the generation that was sent to it, not a later one.
WITH before AS MATERIALIZED (
    SELECT p.webhook_id, p.failing_since, sqlc.arg(gone)::boolean AND w.generation = sqlc.arg(generation)::bigint AS ends
    FROM webhook_progress p JOIN webhook w ON w.id = p.webhook_id WHERE p.webhook_id = sqlc.arg(webhook_id) FOR NO KEY UPDATE OF p
), progress AS (
    UPDATE webhook_progress p SET attempts = p.attempts + 1, last_attempt_at = clock_timestamp(), last_status = sqlc.arg(status), last_error = sqlc.arg(error), slow = sqlc.arg(slow),
        last_success_at = CASE WHEN sqlc.arg(accepted)::boolean THEN clock_timestamp() ELSE p.last_success_at END,
        failures = CASE WHEN sqlc.arg(accepted)::boolean THEN 0 ELSE p.failures + 1 END,
        failing_since = CASE WHEN sqlc.arg(accepted)::boolean THEN NULL ELSE coalesce(p.failing_since, clock_timestamp()) END,
        ended_generation = CASE WHEN before.ends THEN sqlc.arg(generation)::bigint ELSE p.ended_generation END
    FROM before WHERE p.webhook_id = before.webhook_id
    RETURNING p.webhook_id, p.attempts, p.failures, before.failing_since, before.ends
), logged AS (
    INSERT INTO webhook_attempt (webhook_id, slot, at, event_id, type, number, status, error, milliseconds)
    SELECT progress.webhook_id, progress.attempts % sqlc.arg(slots)::int, sqlc.arg(at), sqlc.arg(event_id), sqlc.arg(type), sqlc.arg(number), sqlc.arg(status), sqlc.arg(error), sqlc.arg(milliseconds)
    FROM progress
    ON CONFLICT (webhook_id, slot) DO UPDATE SET at = excluded.at, event_id = excluded.event_id, type = excluded.type, number = excluded.number, status = excluded.status,
        error = excluded.error, milliseconds = excluded.milliseconds
)
SELECT progress.failures, (sqlc.arg(accepted)::boolean AND coalesce(progress.failing_since < clock_timestamp() - sqlc.arg(failing_for)::bigint * interval '1 microsecond', false))::boolean AS recovered,
    progress.ends::boolean AS ended
FROM progress;

-- name: EndDeliveries :exec
-- Ends the deliveries of a webhook that its receiver has ended.
DELETE FROM work WHERE work.kind = 'webhook' AND work.account_id = sqlc.arg(webhook_id) AND work.claim IS NULL;

-- name: BringForward :exec
-- Lets the deliveries of a receiver that accepts again run at once. The attempt that is brought forward does not count.
WITH turn AS (
    UPDATE work_turn SET not_before = 'epoch' WHERE work_turn.kind = 'webhook' AND work_turn.account_id = sqlc.arg(webhook_id) AND work_turn.not_before > now()
)
UPDATE work SET due_at = now(), attempts = greatest(work.attempts - 1, 0)
WHERE work.kind = 'webhook' AND work.account_id = sqlc.arg(webhook_id) AND work.claim IS NULL AND work.due_at > now();

-- name: ReadTransactionInOrder :exec
-- Sets the settings of inOrder for a transaction, and plans each statement for its parameters: with and without an account.
SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: CountWebhooks :one
SELECT count(*) FILTER (WHERE s.state = 'active') AS active, count(*) FILTER (WHERE s.state = 'suspended') AS suspended, count(*) FILTER (WHERE s.state = 'ended') AS ended,
    count(*) FILTER (WHERE s.state = 'active' AND s.failing_since < now() - interval '1 hour') AS failing
FROM (
    SELECT CASE WHEN w.suspended THEN 'suspended' WHEN p.ended_generation >= w.generation THEN 'ended' ELSE 'active' END AS state, p.failing_since
    FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id
) AS s;
