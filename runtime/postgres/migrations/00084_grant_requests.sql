-- How many requests an application has sent with its access, as the page of authorized applications shows it (docs/decisions/0057).

-- +goose Up
ALTER TABLE oauth_grant ADD COLUMN requests bigint NOT NULL DEFAULT 0;
