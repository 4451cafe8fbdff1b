-- Items say how long a recording is, and how many pages a document has, if the first bytes of the file
-- do. Every statement can be repeated: a run that was interrupted is continued by the next one.

-- +goose NO TRANSACTION
-- +goose Up

-- Each change of a table holds its lock for a moment; waiting for it must not stop all requests.
SET lock_timeout = '10s';

-- Null: the fact is not known. facts_version is 2 for an item whose file was read for all facts, and 1 for one
-- that was not read for these.
ALTER TABLE stored_item
    ADD COLUMN IF NOT EXISTS duration_ms bigint,
    ADD COLUMN IF NOT EXISTS pages       integer;
CREATE OR REPLACE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL;

-- What the first bytes of the upload say. They are not at hand when the last ones arrive.
ALTER TABLE resumable_upload ADD COLUMN IF NOT EXISTS head jsonb NOT NULL DEFAULT '{}';

RESET lock_timeout;

-- The items that the backfill has not read, in the place of those of facts_version 0.
DROP INDEX CONCURRENTLY IF EXISTS item_facts_missing;
CREATE INDEX CONCURRENTLY item_facts_missing ON stored_item (account_id, id)
    WHERE facts_version = 0 OR facts_version = 1 AND item_file_type(objects) ~ '^(audio/|video/|application/pdf$)';
DROP INDEX CONCURRENTLY IF EXISTS item_without_facts;
