-- The lists by capture, the search by location, the items that have a location, deleted ones included, and those whose files are yet to be read.

-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS item_list_capture;
CREATE INDEX CONCURRENTLY item_list_capture ON stored_item (app_id, item_capture_order(capture, id), id) WHERE sealed_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_location;
-- As for the index of terms, the planner does not know that the condition is that of the other indexes: a search by location cannot use them.
CREATE INDEX CONCURRENTLY item_location ON stored_item (app_id, item_cell(capture)) WHERE (sealed_at IS NULL) IS FALSE AND item_cell(capture) IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_with_location;
CREATE INDEX CONCURRENTLY item_with_location ON stored_item (account_id, id) WHERE item_cell(capture) IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_capture_missing;
CREATE INDEX CONCURRENTLY item_capture_missing ON stored_item (account_id, id) WHERE capture IS NULL AND item_may_say_capture(objects);
