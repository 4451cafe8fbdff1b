-- An access token may have fewer scopes than its grant (RFC 6749, section 6).

-- +goose Up

-- The lock is held for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

-- NULL: those of the grant, as all tokens had before.
ALTER TABLE oauth_token ADD COLUMN IF NOT EXISTS scopes text[];
