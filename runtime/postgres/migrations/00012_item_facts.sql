-- Items can be changed after their upload (version, metadata), and their documents say what their
-- images are (width to placeholder). Every statement can be repeated: a run that was interrupted is
-- continued by the next one.

-- +goose NO TRANSACTION
-- +goose Up

-- Each change of a table holds its lock for a moment; waiting for it must not stop all requests.
SET lock_timeout = '10s';

-- version increases with every change of the item's document. metadata is a JSON object of strings,
-- by the client's keys. width and height are in pixels, as the image is displayed; placeholder is a
-- ThumbHash. Null: the fact is not known.
--
-- facts_version is 0 for an item of before these columns. The backfill reads its file, and sets it to 1.
ALTER TABLE item
    ADD COLUMN IF NOT EXISTS version       integer NOT NULL DEFAULT 1,
    ADD COLUMN IF NOT EXISTS metadata      jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS width         integer,
    ADD COLUMN IF NOT EXISTS height        integer,
    ADD COLUMN IF NOT EXISTS placeholder   bytea,
    ADD COLUMN IF NOT EXISTS facts_version smallint NOT NULL DEFAULT 0;

-- What becomes the metadata of the item. The column metadata is the header of the upload.
ALTER TABLE resumable_upload ADD COLUMN IF NOT EXISTS item_metadata jsonb NOT NULL DEFAULT '{}';

-- The toolsets of MCP clients (spec.mcp.toolsets); null = core.
ALTER TABLE account ADD COLUMN IF NOT EXISTS mcp_toolsets text[];

RESET lock_timeout;

-- The items that the backfill has not read.
DROP INDEX CONCURRENTLY IF EXISTS item_without_facts;
CREATE INDEX CONCURRENTLY item_without_facts ON item (account_id, id) WHERE facts_version = 0;
