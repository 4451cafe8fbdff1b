-- Upload signatures can have a count, a reference and other restrictions (docs/decisions/0027).
-- Constant defaults and nullable columns: no table is rewritten.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- How many drafts were made, or are being made, with an upload capability that has a count. The row
-- is made at the first use. id is a SHA-256: no signature can be made from it.
CREATE TABLE capability_use (
    id         bytea PRIMARY KEY CHECK (length(id) = 32),
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    uses       integer NOT NULL CHECK (uses >= 0),
    expires_at timestamptz NOT NULL
);
CREATE INDEX capability_use_account ON capability_use (account_id);
CREATE INDEX capability_use_expiry ON capability_use (expires_at);

-- The capability of which the upload has a use: it is given back when the upload ends without an item.
-- There is no foreign key: it would be checked for each upload.
ALTER TABLE upload ADD COLUMN capability_id bytea;
-- What the upload signature that created the upload permits.
ALTER TABLE resumable_upload ADD COLUMN capability jsonb;
-- The reference of the upload signature; empty for an item without.
ALTER TABLE item ADD COLUMN ref text NOT NULL DEFAULT '';
