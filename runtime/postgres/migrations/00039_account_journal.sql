-- The journal of an account tells its changes (docs/decisions/0048).

-- +goose Up
-- How long an event of the account can be read, in seconds; without it, nothing is written to the journal.
ALTER TABLE account ADD COLUMN journal_retention bigint;
