-- name: EnqueueEmail :exec
INSERT INTO email_outbox (encrypted, not_before, expires_at) VALUES ($1, $2, $3);

-- name: LeaseEmails :many
UPDATE email_outbox SET not_before = sqlc.arg(lease_ends)::timestamptz, attempts = attempts + 1
WHERE id = ANY (ARRAY(SELECT l.id FROM email_outbox l WHERE l.not_before <= sqlc.arg(now)::timestamptz ORDER BY l.not_before LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED))
RETURNING *;

-- name: DeleteEmail :exec
DELETE FROM email_outbox WHERE id = $1;

-- name: DelayEmail :exec
UPDATE email_outbox SET not_before = $2 WHERE id = $1;
