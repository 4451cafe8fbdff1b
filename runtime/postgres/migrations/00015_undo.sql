-- +goose Up
-- Each change of a table holds its lock for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

-- A delete that can be undone leaves a tombstone (docs/decisions/0028). Its row stays in the table, which
-- holds every item that has objects; the view item has those that are not deleted. A statement about
-- items reads the view, and cannot find a tombstone. A statement about objects reads the table.
ALTER TABLE item RENAME TO stored_item;
ALTER TABLE stored_item
    -- deleted_at is set while the item is a tombstone, which restorable_until ends. sealed_at is null then, so that
    -- the indexes of lists do not contain it; was_sealed_at keeps the time. A draft becomes no tombstone.
    ADD COLUMN deleted_at       timestamptz,
    ADD COLUMN restorable_until timestamptz,
    ADD COLUMN was_sealed_at    timestamptz,
    ADD CONSTRAINT stored_item_tombstone CHECK (CASE WHEN deleted_at IS NULL
        THEN restorable_until IS NULL AND was_sealed_at IS NULL
        ELSE restorable_until IS NOT NULL AND was_sealed_at IS NOT NULL AND sealed_at IS NULL END) NOT VALID;
CREATE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL;

-- The tombstones of an app, and their bytes, which account_usage contains. As the other totals, only the
-- sum of all slots has a meaning.
ALTER TABLE app_total
    ADD COLUMN deleted_items bigint NOT NULL DEFAULT 0,
    ADD COLUMN deleted_bytes bigint NOT NULL DEFAULT 0;

-- undo_window (spec.undo.window, in seconds) is how long a delete can be undone; null = not at all.
-- undo_for says whose deletes.
ALTER TABLE account
    ADD COLUMN undo_window bigint,
    ADD COLUMN undo_for    text NOT NULL DEFAULT '',
    ADD CONSTRAINT account_undo CHECK (CASE WHEN undo_window IS NULL THEN undo_for = ''
        ELSE undo_window BETWEEN 3600 AND 2592000 AND undo_for IN ('Agents', 'Everyone') END);

-- The tombstones that the purge ended.
ALTER TABLE purge_run ADD COLUMN deleted_items bigint NOT NULL DEFAULT 0;

-- As before, and deleted_bytes: those are no drafts.
CREATE OR REPLACE VIEW account_holding AS
SELECT account.id, account.namespace, account.name, used.bytes AS used,
    sealed.items AS sealed_items, sealed.bytes AS sealed_bytes, running.reserved,
    greatest(used.bytes - sealed.bytes - sealed.deleted - running.reserved, 0)::bigint AS draft_bytes,
    (SELECT coalesce(max(api_key_use.last_used_at), 'epoch') FROM api_key JOIN api_key_use ON api_key_use.key_id = api_key.id WHERE api_key.account_id = account.id)::timestamptz AS last_used_at,
    sealed.deleted AS deleted_bytes
FROM account
CROSS JOIN LATERAL (SELECT coalesce(max(account_usage.bytes), 0)::bigint AS bytes FROM account_usage WHERE account_usage.account_id = account.id) AS used
CROSS JOIN LATERAL (SELECT coalesce(sum(app_total.public_items + app_total.private_items), 0)::bigint AS items, coalesce(sum(app_total.bytes), 0)::bigint AS bytes,
        coalesce(sum(app_total.deleted_bytes), 0)::bigint AS deleted
    FROM app_total WHERE app_total.account_id = account.id) AS sealed
CROSS JOIN LATERAL (SELECT coalesce(sum(upload.reserved), 0)::bigint AS reserved FROM upload WHERE upload.account_id = account.id) AS running
WHERE account.closed_at IS NULL;
