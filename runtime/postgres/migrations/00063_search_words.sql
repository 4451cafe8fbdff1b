-- The items by word (docs/decisions/0052). The text of a row of before is folded for its entry. As for item_terms, the planner does not know that the
-- condition is that of the other indexes, and the pending list is short.

-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS item_words;
CREATE INDEX CONCURRENTLY item_words ON stored_item USING gin (item_words(app_id, coalesce(search_text, item_search_text(file_name, caption, group_label, metadata, NULL))))
    WITH (gin_pending_list_limit = 128) WHERE (sealed_at IS NULL) IS FALSE;
