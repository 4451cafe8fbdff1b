-- +goose NO TRANSACTION
-- Webhooks of all accounts read the journal in the order of all its events (docs/decisions/0049). The partitions of days get their index when
-- they are made.

-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS journal_rest_order;
CREATE INDEX CONCURRENTLY journal_rest_order ON journal_rest (epoch, xid, id);
