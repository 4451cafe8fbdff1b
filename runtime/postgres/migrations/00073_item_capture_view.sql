-- As before, with the column that the table has got.

-- +goose Up
CREATE OR REPLACE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL;
