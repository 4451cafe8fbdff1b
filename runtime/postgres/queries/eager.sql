-- Pictures in advance are tasks of the kind picture: of an item, or, if their key is the account, of the presets of an account and the pass
-- over its items. What seals, restores or changes an item adds its task, and so does the trigger of the settings for the account.
-- Locks are taken in the order rendition_eager, work, work_turn.
--
-- In an update, replicas with another encoder run beside each other. An account is left to the newest encoder that has seen it: a process
-- with an older one does nothing for it, unless it is alone, as after a return to an older version. rendition_queue, served_at and not_before
-- of rendition_eager are those of the version before.

-- name: EnqueueEager :execrows
-- Adds the tasks of accounts that no trigger has added: the encoder is another one, or a pass of the version before was left. As with the
-- trigger, they are before the items of the account.
INSERT INTO work (kind, key, account_id, due_at)
SELECT 'picture', e.account_id, e.account_id, least(now(), (SELECT min(w.due_at) - interval '1 second' FROM work w WHERE w.kind = 'picture' AND w.account_id = e.account_id))
FROM rendition_eager e
WHERE (e.changed <> e.seen OR e.encoder <> sqlc.arg(encoder)::int OR e.before_id IS NOT NULL)
    AND (e.encoder <= sqlc.arg(encoder)::int OR NOT EXISTS (SELECT FROM runtime_instance r WHERE r.lease_ends >= now()
        AND r.version IS DISTINCT FROM (SELECT o.version FROM runtime_instance o WHERE o.id = sqlc.arg(own)::uuid)))
ON CONFLICT (kind, key) DO NOTHING;

-- name: AdoptPictures :execrows
-- Makes tasks of the items that replicas of the version before have queued, and that none of them works on. It ends with the table, a
-- release later. An attempt at the same item may have begun before the item was queued, so its claim ends.
WITH adopted AS (
    DELETE FROM rendition_queue WHERE item_id = ANY (ARRAY(SELECT q.item_id FROM rendition_queue q WHERE q.claim IS NULL OR q.due_at <= now() LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED))
    RETURNING item_id, account_id, due_at, attempts
)
INSERT INTO work (kind, key, account_id, due_at, attempts)
SELECT 'picture', adopted.item_id, adopted.account_id, adopted.due_at, adopted.attempts FROM adopted ORDER BY adopted.item_id
ON CONFLICT (kind, key) DO UPDATE SET claim = NULL, instance_id = NULL, due_at = excluded.due_at WHERE work.claim IS NOT NULL;

-- name: EagerAccount :one
-- newer: a process with a newer encoder has the account. resting: nothing is made for the account.
SELECT e.changed, e.encoder, e.before_id, (e.changed <> e.seen OR e.encoder <> sqlc.arg(encoder)::int)::boolean AS unseen,
    (e.encoder > sqlc.arg(encoder)::int AND EXISTS (SELECT FROM runtime_instance r WHERE r.lease_ends >= now()
        AND r.version IS DISTINCT FROM (SELECT o.version FROM runtime_instance o WHERE o.id = sqlc.arg(own)::uuid)))::boolean AS newer,
    EXISTS (SELECT FROM account a WHERE a.id = e.account_id AND (a.closed_at IS NOT NULL OR a.suspended)) AS resting
FROM rendition_eager e WHERE e.account_id = sqlc.arg(account_id)::uuid;

-- name: SeeEager :exec
-- Records what is made in advance, unless the presets changed again, or another encoder has seen them. Other recipes begin a pass.
UPDATE rendition_eager SET seen = changed, encoder = sqlc.arg(encoder)::int, recipes = sqlc.narg(recipes)::bytea, not_before = 'epoch',
    before_id = CASE WHEN recipes IS NOT DISTINCT FROM sqlc.narg(recipes)::bytea THEN before_id
        WHEN sqlc.narg(recipes)::bytea IS NOT NULL THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid END,
    passed = CASE WHEN recipes IS NOT DISTINCT FROM sqlc.narg(recipes)::bytea THEN passed ELSE 0 END
WHERE account_id = sqlc.arg(account_id)::uuid AND changed = sqlc.arg(changed)::bigint AND encoder = sqlc.arg(seen_by)::int;

-- name: EagerPage :many
-- The next sealed items of a pass, newest first.
SELECT s.id, (item_file_type(s.objects) LIKE 'image/%')::boolean AS image FROM stored_item s
WHERE s.account_id = sqlc.arg(account_id)::uuid AND s.id < sqlc.arg(before_id)::uuid AND s.sealed_at IS NOT NULL AND s.deleted_at IS NULL
ORDER BY s.id DESC LIMIT sqlc.arg(page)::int;

-- name: PassEager :execrows
-- Records how far a pass is; without an id, it has ended. It changes nothing if another pass has begun, or another process has gone on.
UPDATE rendition_eager SET before_id = sqlc.narg(next)::uuid, passed = passed + sqlc.arg(items)::bigint
WHERE account_id = sqlc.arg(account_id)::uuid AND changed = sqlc.arg(changed)::bigint AND encoder = sqlc.arg(encoder)::int
    AND before_id = sqlc.arg(before_id)::uuid;

-- name: RetryEager :exec
-- Adds the task of an item that a pass could not do. If that failed, an attempt of another process, which may have begun before the presets
-- changed, does not end the task: its claim ends.
INSERT INTO work (kind, key, account_id, due_at, attempts, failure)
VALUES ('picture', sqlc.arg(item_id)::uuid, sqlc.arg(account_id)::uuid, now() + sqlc.arg(delay)::bigint * interval '1 microsecond', (sqlc.arg(failure)::text <> '')::int, sqlc.arg(failure)::text)
ON CONFLICT (kind, key) DO UPDATE SET claim = NULL, instance_id = NULL, due_at = excluded.due_at WHERE work.claim IS NOT NULL AND excluded.failure <> '';

-- name: MadeRenditions :many
-- The renditions of an item, of these keys, that are stored or being made.
SELECT key, (NOT ready AND NOT (lease_ends < now() OR process_ended(instance_id, sqlc.arg(own)::uuid)))::boolean AS making, ready FROM rendition
WHERE item_id = sqlc.arg(item_id)::uuid AND key = ANY (sqlc.arg(keys)::bytea[]);

-- name: EagerPending :one
-- Reads the tasks of items and counters: those of sealed items, less what the pass has seen. Before a change was looked at, all items may be pending.
SELECT (
    (SELECT count(*) FROM work w WHERE w.kind = 'picture' AND w.account_id = e.account_id AND w.key <> e.account_id)
    + (SELECT count(*) FROM rendition_queue q WHERE q.account_id = e.account_id)
    + CASE WHEN e.changed <> e.seen OR e.before_id IS NOT NULL THEN greatest(0,
        (SELECT coalesce(sum(t.public_items + t.private_items), 0) FROM app_total t WHERE t.account_id = e.account_id) - CASE WHEN e.changed <> e.seen THEN 0 ELSE e.passed END)
      ELSE 0 END)::bigint
FROM rendition_eager e WHERE e.account_id = $1;

-- name: EagerWaiting :many
-- The open accounts with items of which pictures may have to be made.
SELECT account.namespace, account.name FROM rendition_eager e JOIN account ON account.id = e.account_id AND account.closed_at IS NULL
WHERE (sqlc.narg(namespaces)::text[] IS NULL OR account.namespace = ANY (sqlc.narg(namespaces)::text[]))
    AND (e.changed <> e.seen OR e.before_id IS NOT NULL OR EXISTS (SELECT FROM work w WHERE w.kind = 'picture' AND w.account_id = e.account_id AND w.key <> e.account_id)
        OR EXISTS (SELECT FROM rendition_queue q WHERE q.account_id = e.account_id));
