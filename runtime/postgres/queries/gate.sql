-- What decides whether an item may be sealed, in an account that checks files before (docs/decisions/0051).

-- name: WantSeal :one
-- Records that an item is to be sealed once it may be. One without a result waits for it from now on. No row: it needs no result, or it is
-- not to be sealed.
WITH changed AS (
    UPDATE item SET gate_state = 4, seal_actor = sqlc.arg(actor)::text, version = version + 1
    WHERE item.app_id = $1 AND item.id = $2 AND (item.sealed_at IS NULL) IS NOT FALSE AND item.gate_state IN (0, 1)
    RETURNING item.*
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor, fields)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.updated', c.group_label, sqlc.arg(actor)::text, '{state}'
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT * FROM changed;

-- name: WaitingItem :one
-- An item that waits for a result. resting: nothing is done for its account at present.
SELECT sqlc.embed(item), account.bucket, account.gate, (account.closed_at IS NOT NULL OR account.suspended)::boolean AS resting
FROM item JOIN account ON account.id = item.account_id WHERE item.account_id = $1 AND item.id = $2 AND item.gate_state IN (1, 4);

-- name: PassItem :one
-- Lets an item be sealed that waits for a result. The transaction seals it, if that is wanted. A draft that was purged meanwhile is no row.
WITH waiting AS MATERIALIZED (
    SELECT i.account_id, i.id, i.app_id, i.seal_actor FROM item i
    WHERE i.account_id = $1 AND i.id = $2 AND i.gate_state IN (1, 4) AND (i.sealed_at IS NULL) IS NOT FALSE FOR NO KEY UPDATE
)
UPDATE item SET gate_state = 2, seal_actor = NULL FROM waiting WHERE item.account_id = waiting.account_id AND item.id = waiting.id
RETURNING waiting.app_id, waiting.seal_actor;

-- name: DenyItem :execrows
-- Keeps a draft from being sealed whose file cannot be checked.
WITH changed AS (
    UPDATE item SET gate_state = 3, seal_actor = NULL, version = version + 1
    WHERE item.account_id = $1 AND item.id = $2 AND item.gate_state IN (1, 4) AND (item.sealed_at IS NULL) IS NOT FALSE
    RETURNING item.account_id, item.app_id, item.id, item.version, item.group_label
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.rejected', c.group_label, sqlc.arg(actor)::text
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT changed.id FROM changed;

-- name: QuarantineItem :execrows
-- Ends a draft in whose file something was found. Its bytes leave the cap, and its objects stay. Locks are taken in the order of a deletion.
WITH deleted AS (
    DELETE FROM item WHERE item.account_id = $1 AND item.id = $2 AND item.gate_state IN (1, 4) AND (item.sealed_at IS NULL) IS NOT FALSE RETURNING item.*
), released AS (
    UPDATE account_usage SET bytes = account_usage.bytes - deleted.bytes FROM deleted WHERE account_usage.account_id = deleted.account_id
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version + 1, 'media.rejected', c.group_label, sqlc.arg(actor)::text
    FROM deleted c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
INSERT INTO quarantine (item_id, account_id, app_id, finding, item, objects, bytes)
SELECT deleted.id, deleted.account_id, deleted.app_id, sqlc.arg(finding)::text, to_jsonb(deleted) - 'capture', deleted.objects, deleted.bytes FROM deleted;

-- name: TrimQuarantine :execrows
-- Ends the oldest files in the quarantine of an account that has more than it may, and queues the removal of their objects. A file that is
-- larger than all may be ends, and displaces no other one. The row of the usage is locked, so two of these statements exclude each other.
WITH bound AS MATERIALIZED (
    SELECT a.max_storage::numeric * sqlc.arg(percent)::int / 100 AS bytes FROM account a WHERE a.id = sqlc.arg(account_id)::uuid
), kept AS MATERIALIZED (
    SELECT q.item_id, row_number() OVER latest AS place, q.bytes > (SELECT bound.bytes FROM bound) AS large,
        sum(q.bytes) FILTER (WHERE q.bytes <= (SELECT bound.bytes FROM bound)) OVER latest AS bytes
    FROM quarantine q WHERE q.account_id = sqlc.arg(account_id)::uuid
    WINDOW latest AS (ORDER BY q.at DESC, q.item_id DESC)
), ended AS (
    DELETE FROM quarantine WHERE quarantine.item_id = ANY (ARRAY(SELECT kept.item_id FROM kept
        WHERE kept.place > sqlc.arg(files)::int OR kept.large OR kept.bytes > (SELECT bound.bytes FROM bound)))
    RETURNING quarantine.account_id, quarantine.objects
)
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
SELECT ended.account_id, (SELECT a.bucket FROM account a WHERE a.id = sqlc.arg(account_id)::uuid),
    (SELECT array_agg(o.object ->> 'key') FROM jsonb_array_elements(ended.objects) AS o (object))::text[], false, now()
FROM ended;

-- name: TakeNotice :one
-- Returns the account if its owners were told nothing for so long, and records that they are.
INSERT INTO gate_notice (account_id, told_at) VALUES (sqlc.arg(account_id)::uuid, now())
ON CONFLICT (account_id) DO UPDATE SET told_at = now() WHERE gate_notice.told_at <= now() - sqlc.arg(pause)::bigint * interval '1 microsecond'
RETURNING (SELECT account.namespace FROM account WHERE account.id = gate_notice.account_id)::text AS namespace,
    (SELECT account.name FROM account WHERE account.id = gate_notice.account_id)::text AS name,
    (SELECT account.display_name FROM account WHERE account.id = gate_notice.account_id)::text AS display_name,
    (SELECT account.owners FROM account WHERE account.id = gate_notice.account_id)::text[] AS owners;

-- name: FindingOf :one
-- What was found in the file of an item.
SELECT finding FROM quarantine WHERE app_id = $1 AND item_id = $2;

-- name: ListQuarantine :many
-- The files of a namespace, or of all, the latest first.
SELECT q.item_id, (SELECT account.namespace FROM account WHERE account.id = q.account_id)::text AS namespace, (SELECT account.name FROM account WHERE account.id = q.account_id)::text AS name,
    coalesce((SELECT app.name FROM app WHERE app.id = q.app_id), '')::text AS app, q.at, q.finding, (q.item ->> 'file_name')::text AS file_name, q.bytes
FROM quarantine q
WHERE (sqlc.arg(namespace)::text = '' OR q.account_id = ANY (ARRAY(SELECT owner.id FROM account owner WHERE owner.namespace = sqlc.arg(namespace)::text)))
    AND (q.at, q.item_id) < (sqlc.arg(before)::timestamptz, sqlc.arg(before_id)::uuid)
ORDER BY q.at DESC, q.item_id DESC LIMIT sqlc.arg(batch)::int;

-- name: TakeQuarantined :one
-- Takes a file out of the quarantine, in a transaction that makes an item of it again. In an app that was removed, no key could delete that.
DELETE FROM quarantine WHERE quarantine.item_id = $1 AND EXISTS (SELECT FROM account WHERE account.id = quarantine.account_id AND account.closed_at IS NULL)
    AND EXISTS (SELECT FROM app WHERE app.id = quarantine.app_id AND app.closed_at IS NULL)
RETURNING quarantine.account_id, quarantine.app_id, quarantine.bytes, quarantine.item, coalesce(quarantine.item ->> 'seal_actor', '')::text AS seal_actor;

-- name: RestoreQuarantined :execrows
-- Makes the draft again that a file in quarantine was. It has its full time again.
WITH restored AS (
    INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, metadata, width, height, placeholder,
        duration_ms, pages, ref, focus_x, focus_y, dominant_color, derivatives_state, facts_version, version, gate_state)
    SELECT r.id, r.account_id, r.app_id, r.file_name, r.access, r.caption, r.group_label, r.objects, r.bytes, now(), r.metadata, r.width, r.height, r.placeholder,
        r.duration_ms, r.pages, r.ref, r.focus_x, r.focus_y, r.dominant_color, r.derivatives_state, r.facts_version, r.version + 2, 2
    FROM jsonb_to_record(sqlc.arg(item)::jsonb) AS r (id uuid, account_id uuid, app_id uuid, file_name text, access text, caption text, group_label text, objects jsonb,
        bytes bigint, metadata jsonb, width int, height int, placeholder bytea, duration_ms bigint, pages int, ref text, focus_x smallint, focus_y smallint, dominant_color text,
        derivatives_state smallint, facts_version smallint, version int)
    RETURNING item.account_id, item.app_id, item.id, item.version, item.group_label
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.restored', c.group_label, sqlc.arg(actor)::text
    FROM restored c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT restored.id FROM restored;

-- name: DeleteQuarantined :one
-- Ends a file in quarantine, and queues the removal of its objects.
WITH ended AS (
    DELETE FROM quarantine WHERE quarantine.item_id = $1 RETURNING quarantine.account_id, quarantine.objects
)
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
SELECT ended.account_id, account.bucket, (SELECT array_agg(o.object ->> 'key') FROM jsonb_array_elements(ended.objects) AS o (object))::text[], false, now()
FROM ended JOIN account ON account.id = ended.account_id
RETURNING id;

-- name: ExpireQuarantine :many
-- As above, of a batch of files of before a cutoff.
WITH ended AS (
    DELETE FROM quarantine WHERE ctid = ANY (ARRAY(
        SELECT q.ctid FROM quarantine q WHERE q.at < sqlc.arg(cutoff)::timestamptz ORDER BY q.at LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED))
    RETURNING quarantine.account_id, quarantine.objects
)
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
SELECT ended.account_id, account.bucket, (SELECT array_agg(o.object ->> 'key') FROM jsonb_array_elements(ended.objects) AS o (object))::text[], false, now()
FROM ended JOIN account ON account.id = ended.account_id
RETURNING id;
