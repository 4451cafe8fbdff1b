-- name: Item :one
SELECT * FROM item WHERE app_id = $1 AND id = $2;

-- name: ItemForDelivery :one
-- By id alone, because a file's URL has no app. Suspended and closed accounts serve no files.
SELECT sqlc.embed(item), account.namespace, account.name, account.bucket FROM item
JOIN account ON account.id = item.account_id AND account.closed_at IS NULL AND NOT account.suspended
WHERE item.id = $1;

-- name: Seal :one
-- One conditional update decides between seal and purge (docs/architecture.md, invariants 2 and 4). IS NOT FALSE keeps the planner from an index
-- of all drafts, which it believes to be few after a table was analyzed that had few.
WITH changed AS (
    UPDATE item SET sealed_at = sqlc.arg(now)::timestamptz, version = version + 1
    WHERE item.app_id = $1 AND item.id = $2 AND (item.sealed_at IS NULL) IS NOT FALSE
    RETURNING item.*
), total AS (
    UPDATE app_total SET public_items = public_items + (changed.access = 'public')::int,
        private_items = private_items + (changed.access = 'private')::int, bytes = app_total.bytes + changed.bytes
    FROM changed WHERE app_total.app_id = changed.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), grouped AS (
    INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
    SELECT app_id, group_label, sqlc.arg(slot)::smallint % 4, (access = 'public')::int, (access = 'private')::int
    FROM changed WHERE group_label <> ''
    ON CONFLICT (app_id, group_label, slot) DO UPDATE SET
        public_items = group_total.public_items + excluded.public_items, private_items = group_total.private_items + excluded.private_items
), delta AS (
    INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT app_id, id, group_label, 1, access = 'public' FROM changed
), eager AS (
    INSERT INTO work (kind, key, account_id) SELECT 'picture', changed.id, changed.account_id FROM changed
    WHERE item_file_type(changed.objects) LIKE 'image/%' AND EXISTS (SELECT FROM rendition_eager e WHERE e.account_id = changed.account_id AND e.active)
    ON CONFLICT (kind, key) DO UPDATE SET claim = NULL, instance_id = NULL, due_at = now(), attempts = 0, failure = ''
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.sealed', c.group_label, sqlc.arg(actor)::text
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT * FROM changed;

-- name: ItemForUpdate :one
SELECT * FROM item WHERE app_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: UpdateItem :one
-- Changes an item that the transaction has locked. The counters and lists of a sealed item change with
-- its access and its group: it leaves those of the former ones. Rows of group_total are in the order of
-- the groups, so that two of these statements never wait for each other in a circle.
WITH changed AS (
    UPDATE item SET file_name = sqlc.arg(file_name), access = sqlc.arg(access), caption = sqlc.arg(caption), group_label = sqlc.arg(group_label),
        metadata = sqlc.arg(metadata), focus_x = sqlc.narg(focus_x), focus_y = sqlc.narg(focus_y), version = item.version + 1
    WHERE item.app_id = sqlc.arg(app_id) AND item.id = sqlc.arg(id)
    RETURNING item.*
), moved AS (
    SELECT app_id, id, group_label, access = 'public' AS public, 1 AS delta FROM changed
    WHERE sealed_at IS NOT NULL AND (access, group_label) <> (sqlc.arg(old_access)::text, sqlc.arg(old_group)::text)
    UNION ALL
    SELECT app_id, id, sqlc.arg(old_group)::text, sqlc.arg(old_access)::text = 'public', -1 FROM changed
    WHERE sealed_at IS NOT NULL AND (access, group_label) <> (sqlc.arg(old_access)::text, sqlc.arg(old_group)::text)
), total AS (
    UPDATE app_total SET public_items = app_total.public_items + sums.public, private_items = app_total.private_items - sums.public
    FROM (SELECT app_id, sum(delta) FILTER (WHERE public) AS public FROM moved GROUP BY app_id) AS sums
    WHERE sums.public <> 0 AND app_total.app_id = sums.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), grouped AS (
    INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
    SELECT app_id, group_label, sqlc.arg(slot)::smallint % 4, coalesce(sum(delta) FILTER (WHERE public), 0), coalesce(sum(delta) FILTER (WHERE NOT public), 0)
    FROM moved WHERE group_label <> '' GROUP BY app_id, group_label ORDER BY group_label
    ON CONFLICT (app_id, group_label, slot) DO UPDATE SET
        public_items = group_total.public_items + excluded.public_items, private_items = group_total.private_items + excluded.private_items
), delta AS (
    INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT app_id, id, group_label, delta, public FROM moved
), eager AS (
    INSERT INTO work (kind, key, account_id) SELECT 'picture', changed.id, changed.account_id FROM changed
    WHERE item_file_type(changed.objects) LIKE 'image/%' AND EXISTS (SELECT FROM rendition_eager e WHERE e.account_id = changed.account_id AND e.active)
        AND changed.sealed_at IS NOT NULL AND EXISTS (SELECT FROM item old WHERE old.app_id = changed.app_id AND old.id = changed.id
            AND (old.focus_x, old.focus_y) IS DISTINCT FROM (changed.focus_x, changed.focus_y))
    ON CONFLICT (kind, key) DO UPDATE SET claim = NULL, instance_id = NULL, due_at = now(), attempts = 0, failure = ''
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor, fields)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.updated', c.group_label, sqlc.arg(actor)::text, sqlc.arg(fields)::text[]
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
SELECT version FROM changed;

-- name: DeleteItem :one
-- Deletes the row and queues the removal of its objects in one statement (invariant 3).
WITH deleted AS (
    DELETE FROM item WHERE item.app_id = $1 AND item.id = $2 AND ((item.sealed_at IS NULL) IS NOT FALSE OR NOT sqlc.arg(drafts_only)::boolean) RETURNING item.*
), total AS (
    UPDATE app_total SET public_items = public_items - (deleted.access = 'public')::int,
        private_items = private_items - (deleted.access = 'private')::int, bytes = app_total.bytes - deleted.bytes
    FROM deleted WHERE deleted.sealed_at IS NOT NULL AND app_total.app_id = deleted.app_id AND app_total.slot = sqlc.arg(slot)::smallint
), grouped AS (
    INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
    SELECT app_id, group_label, sqlc.arg(slot)::smallint % 4, -(access = 'public')::int, -(access = 'private')::int
    FROM deleted WHERE group_label <> '' AND sealed_at IS NOT NULL
    ON CONFLICT (app_id, group_label, slot) DO UPDATE SET
        public_items = group_total.public_items + excluded.public_items, private_items = group_total.private_items + excluded.private_items
), delta AS (
    INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT app_id, id, group_label, -1, access = 'public' FROM deleted WHERE sealed_at IS NOT NULL
), released AS (
    UPDATE account_usage SET bytes = account_usage.bytes - deleted.bytes FROM deleted WHERE account_usage.account_id = deleted.account_id
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version + 1, 'media.deleted', c.group_label, sqlc.arg(actor)::text
    FROM deleted c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before, request)
SELECT deleted.account_id, account.bucket,
    (SELECT array_agg(object ->> 'key') FROM jsonb_array_elements(deleted.objects) AS o (object))::text[], false, sqlc.arg(not_before)::timestamptz, sqlc.arg(request)::uuid
FROM deleted JOIN account ON account.id = deleted.account_id
RETURNING id, bucket, keys, EXISTS (SELECT FROM deleted WHERE deleted.sealed_at IS NOT NULL) AS sealed;

-- name: PurgeDrafts :many
-- Deletes a batch of expired drafts. The DELETE repeats the condition on sealed_at, so that a
-- concurrent seal keeps its item. A draft of before a restore may have lost its seal: until
-- the restore itself is older than the cutoff, no draft is. The rows are locked, so that they stay where they are. No index has the form of
-- the repeated condition: by one of drafts, each draft would be compared with each row of the batch.
WITH deleted AS (
    DELETE FROM stored_item WHERE ctid = ANY (ARRAY (
        SELECT d.ctid FROM stored_item d WHERE d.sealed_at IS NULL AND d.deleted_at IS NULL AND d.created_at < sqlc.arg(cutoff)::timestamptz
            AND NOT EXISTS (SELECT FROM installation WHERE resumed_at >= sqlc.arg(cutoff)::timestamptz)
        ORDER BY d.created_at LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED))
        AND coalesce(stored_item.sealed_at, stored_item.deleted_at) IS NULL
    RETURNING stored_item.id, stored_item.account_id, stored_item.app_id, stored_item.version, stored_item.group_label, stored_item.objects, stored_item.bytes
), freed AS (
    SELECT account_id, sum(bytes)::bigint AS bytes FROM deleted GROUP BY account_id
), locked AS MATERIALIZED ( -- in the order of the accounts, as in OpenUploads
    SELECT account_usage.account_id, freed.bytes FROM freed JOIN account_usage ON account_usage.account_id = freed.account_id
    ORDER BY account_usage.account_id FOR UPDATE OF account_usage
), released AS (
    UPDATE account_usage SET bytes = account_usage.bytes - locked.bytes FROM locked WHERE account_usage.account_id = locked.account_id
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor)
    SELECT c.account_id, c.app_id, c.id, c.version + 1, 'media.purged', c.group_label, sqlc.arg(actor)::text
    FROM deleted c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL
)
INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
SELECT deleted.account_id, account.bucket,
    (SELECT array_agg(object ->> 'key') FROM jsonb_array_elements(deleted.objects) AS o (object))::text[], false, sqlc.arg(cutoff)::timestamptz
FROM deleted JOIN account ON account.id = deleted.account_id
RETURNING id;

-- name: CountApp :one
SELECT coalesce(sum(public_items), 0)::bigint AS public_items, coalesce(sum(private_items), 0)::bigint AS private_items FROM app_total WHERE app_id = $1;

-- name: CountGroup :one
SELECT coalesce(sum(public_items), 0)::bigint AS public_items, coalesce(sum(private_items), 0)::bigint AS private_items FROM group_total WHERE app_id = $1 AND group_label = $2;

-- name: Totals :one
SELECT (SELECT coalesce(sum(bytes), 0) FROM app_total WHERE app_total.account_id = account.id)::bigint AS storage, max_storage FROM account WHERE id = $1;
