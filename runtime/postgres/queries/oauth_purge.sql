-- name: PurgeLoginSessions :execrows
DELETE FROM login_session WHERE id = ANY (ARRAY(SELECT r.id FROM login_session r WHERE r.expires_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int));

-- name: PurgeTokens :execrows
DELETE FROM oauth_token WHERE hash = ANY (ARRAY(SELECT t.hash FROM oauth_token t WHERE t.expires_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int));

-- name: PurgeGrants :execrows
-- Deletes revoked grants, and grants with neither a token nor a valid authorization code.
DELETE FROM oauth_grant WHERE id = ANY (ARRAY(
    SELECT g.id FROM oauth_grant g
    WHERE g.revoked_at < sqlc.arg(before)::timestamptz
       OR g.created_at < sqlc.arg(before)::timestamptz AND NOT EXISTS (SELECT FROM oauth_token t WHERE t.grant_id = g.id)
          AND NOT EXISTS (SELECT FROM oauth_code c WHERE c.grant_id = g.id AND c.expires_at > sqlc.arg(before)::timestamptz)
    LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED));

-- name: PurgeClients :execrows
DELETE FROM oauth_client WHERE id = ANY (ARRAY(
    SELECT c.id FROM oauth_client c
    WHERE c.created_at < sqlc.arg(before)::timestamptz AND (c.last_used_at IS NULL OR c.last_used_at < sqlc.arg(before)::timestamptz)
      AND NOT EXISTS (SELECT FROM oauth_grant g WHERE g.client_id = c.id)
      AND NOT EXISTS (SELECT FROM login_session r WHERE r.authorization_request ->> 'clientId' = c.id)
    LIMIT sqlc.arg(batch)::int));

-- name: PurgeRateLimitEvents :execrows
DELETE FROM rate_limit_event WHERE ctid = ANY (ARRAY(SELECT a.ctid FROM rate_limit_event a WHERE a.last_time < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int));

-- name: PurgeEmails :execrows
-- Those of a version before package work.
DELETE FROM email_outbox WHERE id = ANY (ARRAY(SELECT l.id FROM email_outbox l WHERE l.expires_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int));
