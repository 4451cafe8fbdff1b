-- +goose Up
-- The right to delete was a part of media:write. What was granted stays granted.
UPDATE oauth_grant SET scopes = scopes || '{media:delete}' WHERE 'media:write' = ANY (scopes) AND 'media:delete' <> ALL (scopes);
