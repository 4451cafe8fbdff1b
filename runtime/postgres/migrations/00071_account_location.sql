-- Whether the locations at which files were made are kept (docs/decisions/0053).

-- +goose Up
ALTER TABLE account ADD COLUMN keep_location boolean NOT NULL DEFAULT false;
