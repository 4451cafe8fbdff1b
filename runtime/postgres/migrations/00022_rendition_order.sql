-- +goose NO TRANSACTION
-- +goose Up
-- The renditions of an account in the order in which they make room. id decides between those that were used at the same
-- time, as one batch records it, so that what ends many of them can go on where it was. The table may have
-- many rows: nothing here keeps requests waiting. An attempt that was ended left an index that is not valid, so it is made anew.
DROP INDEX CONCURRENTLY IF EXISTS rendition_order;
CREATE INDEX CONCURRENTLY rendition_order ON rendition (account_id, used_at, id) WHERE bytes > 0;
DROP INDEX CONCURRENTLY IF EXISTS rendition_used;
