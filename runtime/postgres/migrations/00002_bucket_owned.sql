-- +goose Up

-- bucket_owned: the bucket's marker names this account. The operator sets it when it
-- looks at the bucket. Some databases have the column from the first migration.
ALTER TABLE account ADD COLUMN IF NOT EXISTS bucket_owned boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE account DROP COLUMN bucket_owned;
