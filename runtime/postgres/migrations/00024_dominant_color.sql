-- The documents of images have their dominant color. Every statement can be repeated: a run that was interrupted is
-- continued by the next one.

-- +goose NO TRANSACTION
-- +goose Up

-- Each change of a table holds its lock for a moment; waiting for it must not stop all requests.
SET lock_timeout = '10s';

-- dominant_color is #rrggbb in sRGB. Null: it is not known. facts_version is 3 for an item whose file was read for all
-- facts, and less for an image that was not read for this one: it has a placeholder, of which images have both or neither.
ALTER TABLE stored_item ADD COLUMN IF NOT EXISTS dominant_color text;
CREATE OR REPLACE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL;

RESET lock_timeout;

-- The items that the backfill has not read, in the place of those of facts_version 0 and 1.
DROP INDEX CONCURRENTLY IF EXISTS item_facts_outdated;
CREATE INDEX CONCURRENTLY item_facts_outdated ON stored_item (account_id, id)
    WHERE facts_version = 0 OR facts_version = 1 AND item_file_type(objects) ~ '^(audio/|video/|application/pdf$)'
        OR facts_version < 3 AND placeholder IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_facts_missing;
