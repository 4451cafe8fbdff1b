-- name: AdoptEmails :execrows
-- Makes tasks of the e-mails that replicas of a version before package work have queued, and that none of them is sending.
-- It ends with the table, a release later.
WITH adopted AS (
    DELETE FROM email_outbox WHERE id = ANY (ARRAY(SELECT l.id FROM email_outbox l WHERE l.not_before <= now() ORDER BY l.not_before LIMIT 100 FOR UPDATE SKIP LOCKED))
    RETURNING encrypted, not_before, expires_at, attempts
)
INSERT INTO work (kind, key, due_at, expires_at, attempts, payload)
SELECT sqlc.arg(kind)::text, gen_random_uuid(), adopted.not_before, adopted.expires_at, adopted.attempts, adopted.encrypted FROM adopted;
