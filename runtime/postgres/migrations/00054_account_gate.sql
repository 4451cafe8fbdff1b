-- What checks the files of an account before they are sealed (docs/decisions/0051).

-- +goose Up
-- {scanner, onUnscannable, onUnavailable, maxScanBytes}; without it, nothing is checked.
ALTER TABLE account ADD COLUMN gate jsonb;
