-- +goose NO TRANSACTION
-- Webhooks of all accounts read the journal in the order of all its events (docs/decisions/0049). The partitions of days get their index when
-- they are made. It is partial so that only their statements use it: for one account, which it is in the order for, too, it would be read in
-- whole.

-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS journal_rest_order;
CREATE INDEX CONCURRENTLY journal_rest_order ON journal_rest (epoch, xid, id) WHERE type <> '';
