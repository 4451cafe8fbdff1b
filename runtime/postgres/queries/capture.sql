-- What the files of items say of how they were made (docs/decisions/0053).

-- name: ItemWithoutCapture :one
-- An item whose file is yet to be read. resting: nothing is done for its account at present.
SELECT item.id, item.account_id, item.objects, account.bucket, account.keep_location, (account.closed_at IS NOT NULL OR account.suspended)::boolean AS resting
FROM item JOIN account ON account.id = item.account_id
WHERE item.account_id = $1 AND item.id = $2 AND item.capture IS NULL AND item.derivatives_state <> 1;

-- name: ItemsWithoutCapture :many
-- The conditions of capture and of the type are those of the index.
SELECT page.id, page.account_id, page.objects, account.bucket, account.keep_location, (account.closed_at IS NOT NULL OR account.suspended)::boolean AS resting FROM (
    SELECT item.id, item.account_id, item.objects FROM item
    WHERE item.capture IS NULL AND item_may_say_capture(item.objects) AND item.derivatives_state <> 1
      AND (item.account_id, item.id) > (sqlc.arg(account_id)::uuid, sqlc.arg(id)::uuid)
    ORDER BY item.account_id, item.id LIMIT sqlc.arg(batch)
) AS page JOIN account ON account.id = page.account_id ORDER BY page.account_id, page.id;

-- name: SetCapture :exec
-- Changes the document, and so the version, if the file says something.
WITH changed AS (
    UPDATE item SET capture = sqlc.arg(capture)::text::jsonb, version = item.version + CASE WHEN sqlc.arg(known)::boolean THEN 1 ELSE 0 END
    WHERE item.account_id = sqlc.arg(account_id)::uuid AND item.id = sqlc.arg(id)::uuid AND item.capture IS NULL
    RETURNING item.account_id, item.app_id, item.id, item.version, item.group_label
)
INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor, fields)
SELECT c.account_id, c.app_id, c.id, c.version, 'media.updated', c.group_label, sqlc.arg(actor)::text, sqlc.arg(fields)::text[]
FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL WHERE sqlc.arg(known)::boolean;

-- name: KeepsLocations :one
-- Whether an account keeps locations now. No row: it was deleted.
SELECT keep_location FROM account WHERE id = $1;

-- name: RemoveLocations :one
-- Removes the locations of a batch of items, deleted ones included, and returns how many they were. A row that another statement changes is left
-- to the next batch: waiting for several could be a deadlock. The rows are locked, so that they stay where they are.
WITH changed AS (
    UPDATE stored_item SET capture = stored_item.capture - 'location' - 'cell', version = stored_item.version + 1
    WHERE stored_item.ctid = ANY (ARRAY (
        SELECT s.ctid FROM stored_item s WHERE s.account_id = sqlc.arg(account_id)::uuid AND item_cell(s.capture) IS NOT NULL
        ORDER BY s.account_id, s.id LIMIT sqlc.arg(batch)::int FOR NO KEY UPDATE SKIP LOCKED))
        AND stored_item.account_id = sqlc.arg(account_id)::uuid
    RETURNING stored_item.account_id, stored_item.app_id, stored_item.id, stored_item.version, stored_item.group_label, stored_item.deleted_at
), told AS (
    INSERT INTO journal (account_id, app_id, item_id, sequence, type, group_label, actor, fields)
    SELECT c.account_id, c.app_id, c.id, c.version, 'media.updated', c.group_label, sqlc.arg(actor)::text, '{capture}'
    FROM changed c JOIN account a ON a.id = c.account_id AND a.journal_retention IS NOT NULL WHERE c.deleted_at IS NULL
)
SELECT count(*) AS removed FROM changed;

-- name: HasLocations :one
-- Whether an item of the account has a location, also one that another statement changes.
SELECT EXISTS (SELECT FROM stored_item s WHERE s.account_id = sqlc.arg(account_id)::uuid AND item_cell(s.capture) IS NOT NULL);
