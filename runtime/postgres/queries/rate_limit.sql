-- name: ConsumeRateLimit :execrows
-- Records an event unless max events were recorded since the given time. No row: the limit is reached.
INSERT INTO rate_limit_event AS a (kind, subject_mac, times, last_time)
VALUES (sqlc.arg(kind), sqlc.arg(subject_mac), ARRAY[sqlc.arg(now)::timestamptz], sqlc.arg(now)::timestamptz)
ON CONFLICT (kind, subject_mac) DO UPDATE
SET times = array_append((SELECT array_agg(t) FROM unnest(a.times) AS t WHERE t > sqlc.arg(since)::timestamptz), excluded.last_time), last_time = excluded.last_time
WHERE (SELECT count(*) FROM unnest(a.times) AS t WHERE t > sqlc.arg(since)::timestamptz) < sqlc.arg(max)::int;

-- name: OldestRateLimitEvent :one
-- The time of the oldest event that counts: one interval later the next event is allowed.
SELECT min(t)::timestamptz AS oldest FROM rate_limit_event, unnest(times) AS t
WHERE kind = sqlc.arg(kind) AND subject_mac = sqlc.arg(subject_mac) AND t > sqlc.arg(since)::timestamptz
HAVING count(*) > 0;

-- name: ForgetRateLimit :exec
DELETE FROM rate_limit_event WHERE kind = sqlc.arg(kind) AND subject_mac = sqlc.arg(subject_mac);
