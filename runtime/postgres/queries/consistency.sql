-- name: AccountByID :one
SELECT * FROM account WHERE id = $1;

-- name: OpenAccountsAfter :many
SELECT * FROM account WHERE closed_at IS NULL AND id > $1 ORDER BY id LIMIT $2;

-- name: ItemsAfter :many
-- Reads pages, so that no transaction stays open for the duration of a check. The renditions of an item are among its objects.
SELECT stored_item.id, (stored_item.objects
    || coalesce((SELECT jsonb_agg(jsonb_build_object('variant', 'rendition-' || r.id, 'key', 'media/' || r.item_id || '/rendition-' || r.id, 'bytes', r.bytes, 'mimeType', r.mime_type, 'sha256', encode(r.sha256, 'hex')))
        FROM rendition r WHERE r.item_id = stored_item.id AND r.ready), '[]'))::jsonb AS objects FROM stored_item WHERE stored_item.account_id = $1 AND stored_item.id > sqlc.arg(after)::uuid ORDER BY stored_item.id LIMIT $2;

-- name: ItemsByID :many
SELECT stored_item.id, (stored_item.objects
    || coalesce((SELECT jsonb_agg(jsonb_build_object('variant', 'rendition-' || r.id, 'key', 'media/' || r.item_id || '/rendition-' || r.id, 'bytes', r.bytes, 'mimeType', r.mime_type, 'sha256', encode(r.sha256, 'hex')))
        FROM rendition r WHERE r.item_id = stored_item.id AND r.ready), '[]'))::jsonb AS objects FROM stored_item WHERE stored_item.account_id = $1 AND stored_item.id = ANY (sqlc.arg(ids)::uuid[]);

-- name: SizeMismatchesAfter :many
-- Items, deleted ones included, whose recorded bytes are not the sum of their objects'.
SELECT item.id, item.bytes, actual.bytes AS actual_bytes
FROM stored_item AS item, LATERAL (SELECT coalesce(sum((o.object ->> 'bytes')::bigint), 0)::bigint AS bytes FROM jsonb_array_elements(item.objects) AS o (object)) AS actual
WHERE item.account_id = $1 AND item.id > sqlc.arg(after)::uuid AND item.bytes <> actual.bytes
ORDER BY item.id LIMIT $2;

-- name: OverdueTombstones :many
-- Deleted items whose time was over before the cutoff.
SELECT id, restorable_until::timestamptz AS restorable_until FROM stored_item
WHERE account_id = $1 AND deleted_at IS NOT NULL AND restorable_until < sqlc.arg(cutoff)::timestamptz AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(batch)::int;

-- name: FindReferences :many
-- The references to keys, in one statement and so in one snapshot: an object whose reference
-- moves from its upload or its writer to its item, or from there to the removal queue, is always
-- found in one of them. ids and writers are of the keys, in their order; a key without a writer has 0.
SELECT 'item'::text AS referrer, (o.object ->> 'key')::text AS key, false AS abort_multipart
FROM stored_item AS item, jsonb_array_elements(item.objects) AS o (object)
WHERE item.account_id = sqlc.arg(account_id) AND item.id = ANY (sqlc.arg(ids)::uuid[])
UNION ALL
SELECT 'item'::text, (o.object ->> 'key')::text, false
FROM quarantine q, jsonb_array_elements(q.objects) AS o (object) WHERE q.account_id = sqlc.arg(account_id) AND q.item_id = ANY (sqlc.arg(ids)::uuid[])
UNION ALL
SELECT 'item'::text, 'media/' || r.item_id || '/rendition-' || r.id, false
FROM rendition r WHERE r.account_id = sqlc.arg(account_id) AND r.item_id = ANY (sqlc.arg(ids)::uuid[]) AND r.bytes > 0
UNION ALL
SELECT 'upload'::text, upload.item_id::text, true
FROM upload WHERE upload.account_id = sqlc.arg(account_id) AND upload.item_id = ANY (sqlc.arg(ids)::uuid[])
UNION ALL
SELECT 'writer'::text, listed.key::text, false
FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(keys)::text[]) AS key, unnest(sqlc.arg(writers)::bigint[]) AS number) AS listed
JOIN upload_writer w ON w.number = listed.number AND w.since <= listed.id AND w.account_id = sqlc.arg(account_id) AND w.bucket = sqlc.arg(bucket)
UNION ALL
SELECT 'removal'::text, k.key::text, r.abort_multipart
FROM object_removal r, unnest(r.keys) AS k (key)
WHERE r.bucket = sqlc.arg(bucket) AND k.key = ANY (sqlc.arg(keys)::text[]);

-- name: CounterDrift :many
-- Counters that differ from a recount, in one snapshot: every statement that changes
-- items or uploads also changes their counters.
WITH sealed AS MATERIALIZED (
    SELECT app_id, group_label, count(*) FILTER (WHERE access = 'public') AS public_items,
        count(*) FILTER (WHERE access = 'private') AS private_items, sum(bytes) AS bytes
    FROM item WHERE item.account_id = sqlc.arg(account_id) AND sealed_at IS NOT NULL GROUP BY app_id, group_label
), apps AS (
    SELECT app_id, sum(public_items) AS public_items, sum(private_items) AS private_items, sum(bytes) AS bytes FROM sealed GROUP BY app_id
), app_recorded AS (
    SELECT app_id, sum(public_items) AS public_items, sum(private_items) AS private_items, sum(bytes) AS bytes
    FROM app_total WHERE app_total.account_id = sqlc.arg(account_id) GROUP BY app_id
), deleted AS (
    SELECT app_id, count(*) AS items, sum(bytes) AS bytes FROM stored_item WHERE stored_item.account_id = sqlc.arg(account_id) AND deleted_at IS NOT NULL GROUP BY app_id
), deleted_recorded AS (
    SELECT app_id, sum(deleted_items) AS items, sum(deleted_bytes) AS bytes FROM app_total WHERE app_total.account_id = sqlc.arg(account_id) GROUP BY app_id
), group_recorded AS (
    SELECT g.app_id, g.group_label, sum(public_items) AS public_items, sum(private_items) AS private_items
    FROM group_total g JOIN app ON app.id = g.app_id WHERE app.account_id = sqlc.arg(account_id) GROUP BY g.app_id, g.group_label
), compared AS (
    SELECT 'account_usage'::text AS counter, NULL::uuid AS app_id, ''::text AS group_label,
        0::numeric AS recorded_public, 0::numeric AS recorded_private, coalesce((SELECT bytes FROM account_usage WHERE account_usage.account_id = sqlc.arg(account_id)), 0)::numeric AS recorded_bytes,
        0::numeric AS actual_public, 0::numeric AS actual_private,
        coalesce((SELECT sum(bytes) FROM stored_item WHERE stored_item.account_id = sqlc.arg(account_id)), 0)
            + coalesce((SELECT sum(reserved) FROM upload WHERE upload.account_id = sqlc.arg(account_id)), 0)
            + coalesce((SELECT sum(bytes) FROM rendition WHERE rendition.account_id = sqlc.arg(account_id)), 0) AS actual_bytes
    UNION ALL
    SELECT 'rendition_bytes', NULL, '', 0, 0, coalesce((SELECT rendition_bytes FROM account_usage WHERE account_usage.account_id = sqlc.arg(account_id)), 0), 0, 0,
        coalesce((SELECT sum(bytes) FROM rendition WHERE rendition.account_id = sqlc.arg(account_id)), 0)
    UNION ALL
    SELECT 'rendition_total', NULL, coalesce(n.preset, r.preset) || ' ' || encode(coalesce(n.recipe_id, r.recipe_id), 'hex'), 0, coalesce(n.items, 0), coalesce(n.bytes, 0), 0, coalesce(r.items, 0), coalesce(r.bytes, 0)
    FROM (SELECT preset, recipe_id, items, bytes FROM rendition_total WHERE rendition_total.account_id = sqlc.arg(account_id)) n
    FULL JOIN (SELECT preset, recipe_id, count(*) AS items, sum(bytes) AS bytes FROM rendition WHERE rendition.account_id = sqlc.arg(account_id) AND ready GROUP BY preset, recipe_id) r
        ON r.preset = n.preset AND r.recipe_id = n.recipe_id
    UNION ALL
    SELECT 'app_total', coalesce(n.app_id, a.app_id), '', coalesce(n.public_items, 0), coalesce(n.private_items, 0), coalesce(n.bytes, 0),
        coalesce(a.public_items, 0), coalesce(a.private_items, 0), coalesce(a.bytes, 0)
    FROM app_recorded n FULL JOIN apps a ON a.app_id = n.app_id
    UNION ALL
    SELECT 'deleted_total', coalesce(n.app_id, d.app_id), '', 0, coalesce(n.items, 0), coalesce(n.bytes, 0), 0, coalesce(d.items, 0), coalesce(d.bytes, 0)
    FROM deleted_recorded n FULL JOIN deleted d ON d.app_id = n.app_id
    UNION ALL
    SELECT 'group_total', coalesce(n.app_id, s.app_id), coalesce(n.group_label, s.group_label), coalesce(n.public_items, 0), coalesce(n.private_items, 0), 0,
        coalesce(s.public_items, 0), coalesce(s.private_items, 0), 0
    FROM group_recorded n FULL JOIN (SELECT * FROM sealed WHERE group_label <> '') s ON s.app_id = n.app_id AND s.group_label = n.group_label
)
SELECT counter::text AS counter, coalesce(app_id, '00000000-0000-0000-0000-000000000000')::uuid AS app_id, group_label::text AS group_label,
    recorded_public::bigint AS recorded_public, recorded_private::bigint AS recorded_private, recorded_bytes::bigint AS recorded_bytes,
    actual_public::bigint AS actual_public, actual_private::bigint AS actual_private, actual_bytes::bigint AS actual_bytes
FROM compared
WHERE (recorded_public, recorded_private, recorded_bytes) <> (actual_public, actual_private, actual_bytes)
ORDER BY CASE counter WHEN 'account_usage' THEN 0 WHEN 'rendition_bytes' THEN 1 WHEN 'group_total' THEN 2 ELSE 3 END, app_id, group_label;

-- name: PageIndexDrift :many
-- Blocks of the pagination index that, with their deltas, differ from a recount, in one snapshot.
WITH blocks AS MATERIALIZED (
    SELECT b.app_id, b.group_label, b.first_id, b.items, b.public_items, lead(b.first_id) OVER (PARTITION BY b.app_id, b.group_label ORDER BY b.first_id) AS next_id
    FROM item_page_block b JOIN app ON app.id = b.app_id WHERE app.account_id = sqlc.arg(account_id)
), compared AS (
    SELECT b.app_id, b.group_label, b.first_id, b.items + d.items AS items, b.public_items + d.public_items AS public_items, r.items AS actual_items, r.public_items AS actual_public
    FROM blocks b, LATERAL (
        SELECT coalesce(sum(c.delta), 0) AS items, coalesce(sum(c.delta) FILTER (WHERE c.public), 0) AS public_items FROM item_page_delta c
        WHERE c.app_id = b.app_id AND c.id >= b.first_id AND (b.next_id IS NULL OR c.id < b.next_id) AND (b.group_label = '' OR c.group_label = b.group_label)
    ) AS d, LATERAL (
        SELECT sum(counted.items) AS items, sum(counted.public_items) AS public_items FROM (
            SELECT count(*) AS items, count(*) FILTER (WHERE i.access = 'public') AS public_items FROM item i
            WHERE b.group_label = '' AND i.app_id = b.app_id AND i.sealed_at IS NOT NULL AND i.id >= b.first_id AND (b.next_id IS NULL OR i.id < b.next_id)
            UNION ALL
            SELECT count(*), count(*) FILTER (WHERE i.access = 'public') FROM item i
            WHERE i.app_id = b.app_id AND i.sealed_at IS NOT NULL AND i.group_label = b.group_label AND i.group_label <> '' AND i.id >= b.first_id AND (b.next_id IS NULL OR i.id < b.next_id)
        ) AS counted
    ) AS r
)
SELECT app_id, group_label, first_id, items::bigint AS items, public_items::bigint AS public_items, actual_items::bigint AS actual_items, actual_public::bigint AS actual_public
FROM compared WHERE (items, public_items) <> (actual_items, actual_public) ORDER BY app_id, group_label, first_id;

-- name: InvalidateBlock :exec
-- Makes the next compaction count a block again: a delta of zero.
INSERT INTO item_page_delta (app_id, id, group_label, delta, public) VALUES (sqlc.arg(app_id), sqlc.arg(first_id), sqlc.arg(group_label), 0, false);

-- name: LockRepair :exec
-- Serializes repairs: two that add the same difference would add it twice.
SELECT pg_advisory_xact_lock(sqlc.arg(class)::int, hashtext(sqlc.arg(account)::text));

-- name: EnsureTotals :exec
-- A seal updates a slot, and would not be counted without its row.
INSERT INTO app_total (app_id, account_id, slot)
SELECT app.id, app.account_id, slot FROM app, generate_series(0, sqlc.arg(slots)::int - 1) AS slot WHERE app.account_id = $1
ON CONFLICT DO NOTHING;

-- name: RepairAppTotal :exec
INSERT INTO app_total (app_id, account_id, slot, public_items, private_items, bytes)
VALUES (sqlc.arg(app_id), sqlc.arg(account_id), 0, sqlc.arg(public_items), sqlc.arg(private_items), sqlc.arg(bytes))
ON CONFLICT (app_id, slot) DO UPDATE SET public_items = app_total.public_items + excluded.public_items,
    private_items = app_total.private_items + excluded.private_items, bytes = app_total.bytes + excluded.bytes;

-- name: RepairDeletedTotal :exec
INSERT INTO app_total (app_id, account_id, slot, deleted_items, deleted_bytes)
VALUES (sqlc.arg(app_id), sqlc.arg(account_id), 0, sqlc.arg(items), sqlc.arg(bytes))
ON CONFLICT (app_id, slot) DO UPDATE SET deleted_items = app_total.deleted_items + excluded.deleted_items, deleted_bytes = app_total.deleted_bytes + excluded.deleted_bytes;

-- name: RepairGroupTotal :exec
INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
VALUES (sqlc.arg(app_id), sqlc.arg(group_label), 0, sqlc.arg(public_items), sqlc.arg(private_items))
ON CONFLICT (app_id, group_label, slot) DO UPDATE SET public_items = group_total.public_items + excluded.public_items,
    private_items = group_total.private_items + excluded.private_items;

-- name: EnsureUsage :exec
INSERT INTO account_usage (account_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: AddUsage :exec
UPDATE account_usage SET bytes = bytes + sqlc.arg(delta)::bigint WHERE account_id = $1;

-- name: AddRenditionUsage :exec
UPDATE account_usage SET rendition_bytes = rendition_bytes + sqlc.arg(delta)::bigint WHERE account_id = $1;

-- name: RepairRenditionTotal :exec
INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes)
VALUES (sqlc.arg(account_id), sqlc.arg(preset), sqlc.arg(recipe_id), sqlc.arg(items), sqlc.arg(bytes))
ON CONFLICT (account_id, preset, recipe_id) DO UPDATE SET items = rendition_total.items + excluded.items, bytes = rendition_total.bytes + excluded.bytes;

-- name: DropRendition :execrows
-- Ends a rendition by the id in the key of its object.
WITH locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE
)
DELETE FROM rendition USING locked WHERE rendition.account_id = locked.account_id AND rendition.item_id = sqlc.arg(item_id)::uuid AND rendition.id = sqlc.arg(id)::uuid AND rendition.ready;

-- name: RepairItemBytes :exec
-- Computes the sum in the statement, so that it is right for the current objects.
UPDATE stored_item SET bytes = (SELECT coalesce(sum((o.object ->> 'bytes')::bigint), 0) FROM jsonb_array_elements(stored_item.objects) AS o (object))::bigint
WHERE stored_item.account_id = $1 AND stored_item.id = $2;

-- name: LockItem :one
SELECT * FROM stored_item WHERE account_id = $1 AND id = $2 FOR UPDATE;

-- name: SetItemObjects :exec
UPDATE stored_item SET objects = $2, bytes = $3 WHERE id = $1;

-- name: DecrementAppTotal :exec
UPDATE app_total SET bytes = bytes - sqlc.arg(bytes)::bigint WHERE app_id = $1 AND slot = 0;

-- name: DecrementDeleted :exec
UPDATE app_total SET deleted_bytes = deleted_bytes - sqlc.arg(bytes)::bigint WHERE app_id = $1 AND slot = 0;

-- name: CountPending :one
SELECT (SELECT count(*) FROM upload WHERE upload.account_id = sqlc.arg(account_id))::bigint AS uploads,
    (SELECT count(*) FROM object_removal WHERE object_removal.account_id = sqlc.arg(account_id))::bigint AS removals;

-- name: CountRestored :one
SELECT (SELECT count(*) FROM item d WHERE d.account_id = sqlc.arg(account_id) AND d.sealed_at IS NULL AND d.created_at < sqlc.arg(cutoff)::timestamptz)::bigint AS drafts,
    (SELECT coalesce(sum(d.bytes), 0) FROM item d WHERE d.account_id = sqlc.arg(account_id) AND d.sealed_at IS NULL AND d.created_at < sqlc.arg(cutoff)::timestamptz)::bigint AS draft_bytes,
    (SELECT count(*) FROM api_key k WHERE k.account_id = sqlc.arg(account_id) AND (k.expires_at IS NULL OR k.expires_at > now()))::bigint AS keys;
