-- The statements that change items write their events themselves.

-- name: JournalState :one
-- What a reader needs to know. Transactions from oldest on may still run: one that has ended is visible to the next statement.
SELECT coalesce((SELECT installation.epoch FROM installation), 0)::bigint AS epoch, journal_oldest()::bigint AS oldest,
    now()::timestamptz AS now, account.journal_retention
FROM account WHERE account.id = $1;

-- name: Events :many
-- Events after a position, in their order, and the last one that may be examined, whether it matches or not. Transactions of epochs before
-- are over, and their numbers are of another server, perhaps. It needs the settings of inOrder. It has two parts, so that the scan of the index
-- ends at oldest: a comparison of rows would read all events that are committed after it.
SELECT e.id, e.at, e.epoch, e.xid, e.account_id, e.app_id, e.item_id, e.sequence, e.type, e.group_label, e.actor, e.fields, e.matches::boolean AS matches,
    (e.number = sqlc.arg(examined)::int)::boolean AS last
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.epoch, r.xid, r.id) AS number,
        ((sqlc.arg(all_apps)::boolean OR r.app_id = sqlc.arg(app_id)::uuid OR r.app_id IS NULL AND sqlc.arg(of_account)::boolean)
        AND (cardinality(sqlc.arg(types)::text[]) = 0 OR r.type = ANY (sqlc.arg(types)::text[]))) IS TRUE AS matches
    FROM (
        SELECT b.* FROM (
            (SELECT j.* FROM journal j
            WHERE j.account_id = sqlc.arg(account_id) AND j.at >= sqlc.arg(since)::timestamptz
                AND (j.epoch, j.xid, j.id) > (sqlc.arg(after_epoch)::bigint, sqlc.arg(after_xid)::bigint, sqlc.arg(after_id)::bigint) AND j.epoch < sqlc.arg(epoch)::bigint
            ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(examined)::int)
            UNION ALL
            (SELECT j.* FROM journal j
            WHERE j.account_id = sqlc.arg(account_id) AND j.at >= sqlc.arg(since)::timestamptz AND j.epoch = sqlc.arg(epoch)::bigint AND j.xid < sqlc.arg(oldest)::bigint
                AND (j.xid, j.id) > (CASE WHEN sqlc.arg(after_epoch)::bigint < sqlc.arg(epoch)::bigint THEN -1 WHEN sqlc.arg(after_epoch)::bigint = sqlc.arg(epoch)::bigint THEN sqlc.arg(after_xid)::bigint END, sqlc.arg(after_id)::bigint)
            ORDER BY j.epoch, j.xid, j.id LIMIT sqlc.arg(examined)::int)
        ) AS b
        ORDER BY b.epoch, b.xid, b.id LIMIT sqlc.arg(examined)::int
    ) AS r
) AS e
WHERE e.matches OR e.number = sqlc.arg(examined)::int
ORDER BY e.epoch, e.xid, e.id LIMIT sqlc.arg(most)::int;

-- name: RecentEvents :many
-- Events before a position, newest first, and the last one that may be examined, whether it matches or not. All that are committed: people
-- look again, so one of a transaction that ends late is not lost to them. It needs the settings of inOrder.
SELECT e.id, e.at, e.epoch, e.xid, e.account_id, e.app_id, e.item_id, e.sequence, e.type, e.group_label, e.actor, e.fields, e.matches::boolean AS matches,
    (e.number = sqlc.arg(examined)::int)::boolean AS last
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.epoch DESC, r.xid DESC, r.id DESC) AS number,
        ((sqlc.arg(all_apps)::boolean OR r.app_id = sqlc.arg(app_id)::uuid OR r.app_id IS NULL AND sqlc.arg(of_account)::boolean)
        AND (sqlc.arg(all_items)::boolean OR r.item_id = sqlc.arg(item_id)::uuid)
        AND (cardinality(sqlc.arg(types)::text[]) = 0 OR r.type = ANY (sqlc.arg(types)::text[]))) IS TRUE AS matches
    FROM (
        SELECT j.* FROM journal j
        WHERE j.account_id = sqlc.arg(account_id) AND j.at >= sqlc.arg(since)::timestamptz
            AND (j.epoch, j.xid, j.id) < (sqlc.arg(before_epoch)::bigint, sqlc.arg(before_xid)::bigint, sqlc.arg(before_id)::bigint)
        ORDER BY j.epoch DESC, j.xid DESC, j.id DESC LIMIT sqlc.arg(examined)::int
    ) AS r
) AS e
WHERE e.matches OR e.number = sqlc.arg(examined)::int
ORDER BY e.epoch DESC, e.xid DESC, e.id DESC LIMIT sqlc.arg(most)::int;

-- name: NamedItems :many
-- The names of items of an account, and of their apps, also of deleted ones that can be restored.
SELECT stored_item.id, stored_item.app_id, app.name AS app_name, stored_item.file_name,
    (stored_item.sealed_at IS NULL AND stored_item.deleted_at IS NULL)::boolean AS draft, (stored_item.deleted_at IS NOT NULL)::boolean AS deleted
FROM stored_item JOIN app ON app.id = stored_item.app_id WHERE stored_item.account_id = sqlc.arg(account_id) AND stored_item.id = ANY (sqlc.arg(ids)::uuid[]);

-- name: JournalDays :many
-- The partitions, and since when nobody can read anything before.
SELECT child.relname::text AS name, (now() - coalesce((SELECT max(account.journal_retention) FROM account), 0) * interval '1 second')::timestamptz AS cutoff
FROM pg_catalog.pg_inherits JOIN pg_catalog.pg_class child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'journal'::regclass ORDER BY child.relname;

-- name: ExpireJournal :execrows
-- Deletes events that nobody can read anymore, and that are in no partition.
DELETE FROM journal_rest WHERE ctid = ANY (ARRAY (
    SELECT r.ctid FROM journal_rest r WHERE r.at < now() - coalesce((SELECT max(account.journal_retention) FROM account), 0) * interval '1 second'
    LIMIT sqlc.arg(batch)::int));

-- name: LockJournal :exec
-- Waits for the transactions that have written events, and makes others wait, so that each event has the epoch in which it is committed.
LOCK TABLE journal IN SHARE ROW EXCLUSIVE MODE;
