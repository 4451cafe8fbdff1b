-- An access token may have fewer scopes than its grant (RFC 6749, section 6).

-- +goose Up
-- NULL: those of the grant, as all tokens had before.
ALTER TABLE oauth_token ADD COLUMN scopes text[];
