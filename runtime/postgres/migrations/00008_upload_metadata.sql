-- +goose Up

-- The field Upload-Metadata as the client sent it, which HEAD returns unchanged. Empty
-- when none was sent, and for uploads that were created before this column existed.
ALTER TABLE resumable ADD COLUMN metadata text NOT NULL DEFAULT '' CHECK (octet_length(metadata) <= 8192);

-- +goose Down
ALTER TABLE resumable DROP COLUMN metadata;
