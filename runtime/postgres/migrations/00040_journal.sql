-- A row for each change of an account that has a journal. The statement that makes the change writes it, so it is there if, and only if,
-- the change is (docs/decisions/0048).

-- +goose Up
-- The epoch is read when the row is written, not when the statement began: a restore that is confirmed meanwhile is in it. PostgreSQL would
-- plan the query of a function in SQL again for each row, which takes as long as the row.
-- +goose StatementBegin
CREATE FUNCTION journal_epoch() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce((SELECT epoch FROM installation), 0);
END
$$;
-- +goose StatementEnd

-- The oldest transaction of this database that may still run; all before have ended, and what they wrote is visible to the next statement.
-- The xmin of a snapshot would be that of all databases of the server: a transaction of another application would hold events back. The
-- snapshot, which no transaction from xid on is in, is taken before the transactions that run are read. Their numbers have 32 bits.
-- PostgreSQL reads them once in a transaction: a transaction calls this once.
-- +goose StatementBegin
CREATE FUNCTION journal_oldest() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (WITH taken AS MATERIALIZED (
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xid
    ), running AS MATERIALIZED (
        SELECT (taken.xid - a.backend_xid::text::bigint) & 4294967295 AS age FROM taken CROSS JOIN pg_stat_get_activity(NULL) AS a
        WHERE a.backend_xid IS NOT NULL AND a.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    )
    SELECT taken.xid - coalesce((SELECT max(running.age) FROM running WHERE running.age < 2147483648), 0) FROM taken);
END
$$;
-- +goose StatementEnd

CREATE TABLE journal (
    id          bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- A day of at is a partition.
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Readers go on in the order of epoch, xid and id. All rows of a transaction that is older than those that run are visible at once,
    -- so nothing appears behind a reader that stops there. The numbers of transactions begin again after a restore: the epoch comes first.
    epoch       bigint NOT NULL DEFAULT journal_epoch(),
    xid         bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    -- There is no foreign key: it would cost each row a lock of the account.
    account_id  uuid NOT NULL,
    -- Without an app, the event is of the account.
    app_id      uuid,
    item_id     uuid,
    -- The version of the item after the change. It orders the events of one item.
    sequence    bigint,
    type        text NOT NULL,
    group_label text NOT NULL DEFAULT '',
    -- Who made the change, as JSON.
    actor       text NOT NULL DEFAULT '',
    -- The names of what was changed, without values.
    fields      text[] NOT NULL DEFAULT '{}'
) PARTITION BY RANGE (at);
CREATE INDEX journal_account ON journal (account_id, epoch, xid, id);

-- Rows of a day without a partition are here: a purge that does not run keeps nobody from uploading.
CREATE TABLE journal_rest PARTITION OF journal DEFAULT;
