-- +goose NO TRANSACTION
-- +goose Up
-- The resumable uploads of an app that are running, in the order of their creation (docs/decisions/0040). Uploads by form have
-- an instance while they run, so the index does not have them.
DROP INDEX CONCURRENTLY IF EXISTS upload_resumable;
CREATE INDEX CONCURRENTLY upload_resumable ON upload (app_id, item_id) WHERE instance_id IS NULL;
