-- What searches by words look in (docs/decisions/0052).

-- +goose Up
-- {keys, language}; without it, in all metadata, and words have no language.
ALTER TABLE account ADD COLUMN search jsonb;
