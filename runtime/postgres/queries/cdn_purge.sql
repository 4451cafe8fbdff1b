-- name: KeepPurger :one
-- Records that a process has a purger, and returns the id of the installation. Most calls write nothing.
WITH kept AS (
    INSERT INTO cdn_purger (seen_at) SELECT now() WHERE NOT EXISTS (SELECT FROM cdn_purger p WHERE p.seen_at > now() - interval '10 minutes')
    ON CONFLICT (singleton) DO UPDATE SET seen_at = excluded.seen_at
)
SELECT id FROM installation;

-- name: ForgetPurger :execrows
-- Ends what is queued for the CDN once no process has had a purger for a day.
DELETE FROM cdn_purger WHERE seen_at < now() - interval '1 day';

-- name: ForgetPurges :execrows
DELETE FROM cdn_purge WHERE cdn_purge.id = ANY (ARRAY(SELECT p.id FROM cdn_purge p LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED)) AND NOT EXISTS (SELECT FROM cdn_purger);

-- name: EnqueueCDNPurges :execrows
-- Adds the task that sends what is due, unless it is there. A task whose process has died is claimed for a while longer: another one is added
-- if all are claimed, and end, unless they are done, before stalled, in microseconds from now.
INSERT INTO work (kind, key)
SELECT sqlc.arg(kind)::text, ('00000000-0000-0000-0000-' || lpad(free.number::text, 12, '0'))::uuid
FROM generate_series(0, 9) AS free (number)
WHERE EXISTS (SELECT FROM cdn_purge p WHERE p.due_at <= now())
    AND NOT EXISTS (SELECT FROM work w WHERE w.kind = sqlc.arg(kind)::text AND w.key = ('00000000-0000-0000-0000-' || lpad(free.number::text, 12, '0'))::uuid)
    AND NOT EXISTS (SELECT FROM work w WHERE w.kind = sqlc.arg(kind)::text AND (w.claim IS NULL OR w.due_at > now() + sqlc.arg(stalled)::bigint * interval '1 microsecond'))
ORDER BY free.number LIMIT 1
ON CONFLICT (kind, key) DO NOTHING;

-- name: DueCDNPurges :many
SELECT id, account_id, item_id, preset, (sent_at IS NOT NULL)::boolean AS again FROM cdn_purge WHERE due_at <= now() ORDER BY due_at, id LIMIT sqlc.arg(batch)::int;

-- name: CDNPurgesSent :exec
-- What was sent a second time ends: that is, what was due again when it was read. Of two processes that send the same for the first time, the
-- second to finish changes nothing. The rows are chosen by their ids alone: with sent_at, the index of those that wait would be read.
WITH chosen AS MATERIALIZED (
    SELECT p.id, p.sent_at FROM cdn_purge p WHERE p.id = ANY (sqlc.arg(first)::bigint[]) FOR UPDATE
), again AS (
    UPDATE cdn_purge SET sent_at = now(), due_at = now() + sqlc.arg(pause)::bigint * interval '1 microsecond'
    WHERE cdn_purge.id = ANY (ARRAY(SELECT chosen.id FROM chosen WHERE chosen.sent_at IS NULL))
)
DELETE FROM cdn_purge WHERE cdn_purge.id = ANY (sqlc.arg(again)::bigint[]);

-- name: WaitingCDNPurges :one
SELECT count(*) AS purges, coalesce(extract(epoch FROM now() - min(queued_at)), 0)::float8 AS oldest_seconds FROM cdn_purge WHERE sent_at IS NULL;
