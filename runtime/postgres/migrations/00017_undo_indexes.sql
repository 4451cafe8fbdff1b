-- +goose NO TRANSACTION
-- +goose Up
-- The table may have many rows: nothing here keeps requests waiting. An attempt that was ended left an
-- index that is not valid, so each is made anew.
ALTER TABLE stored_item VALIDATE CONSTRAINT stored_item_tombstone;

-- The purge reads drafts by their age, and must not read all tombstones before them.
DROP INDEX CONCURRENTLY IF EXISTS item_draft_created;
CREATE INDEX CONCURRENTLY item_draft_created ON stored_item (created_at) WHERE sealed_at IS NULL AND deleted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_draft_age;
-- Nor does the list of the drafts of an app.
DROP INDEX CONCURRENTLY IF EXISTS item_draft_list;
CREATE INDEX CONCURRENTLY item_draft_list ON stored_item (account_id, app_id, id) WHERE sealed_at IS NULL AND deleted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_draft_app;

-- The list of the deleted items of an app, the tombstones of an account in the order in which room is made,
-- and those that are over.
DROP INDEX CONCURRENTLY IF EXISTS stored_item_deleted_app;
CREATE INDEX CONCURRENTLY stored_item_deleted_app ON stored_item (app_id, deleted_at, id) WHERE deleted_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS stored_item_deleted_account;
CREATE INDEX CONCURRENTLY stored_item_deleted_account ON stored_item (account_id, deleted_at, id) WHERE deleted_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS stored_item_restorable;
CREATE INDEX CONCURRENTLY stored_item_restorable ON stored_item (restorable_until) WHERE deleted_at IS NOT NULL;
