-- Derivatives that are made after the upload was answered (docs/decisions/0044).

-- +goose Up

-- 0: they were made with the upload, or there are none. 1: they are to be made. 2: they were made later.
ALTER TABLE stored_item ADD COLUMN derivatives_state smallint NOT NULL DEFAULT 0;
