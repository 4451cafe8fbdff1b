-- name: InsertLoginSession :exec
INSERT INTO login_session (id, cookie_hash, authorization_request, expires_at) VALUES ($1, $2, $3, $4);

-- name: FindLoginSession :one
SELECT * FROM login_session WHERE id = $1 AND cookie_hash = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz;

-- name: LockLoginSession :one
SELECT * FROM login_session WHERE id = $1 AND cookie_hash = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz FOR UPDATE;

-- name: SetLoginCode :exec
UPDATE login_session SET email = $2, code_mac = $3, code_sent_at = sqlc.arg(sent_at)::timestamptz, code_expires_at = sqlc.arg(expires_at)::timestamptz
WHERE id = $1;

-- name: CountCodeAttempt :one
-- Counts the attempt before the code is compared, so that concurrent attempts count too.
UPDATE login_session SET attempts = attempts + 1
WHERE id = $1 AND cookie_hash = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz AND logged_in_at IS NULL
  AND attempts < sqlc.arg(max)::int
RETURNING *;

-- name: SetLoggedIn :one
-- A correct code logs in once; the session gets a new cookie. The login is an event of each account of the owner: the name is that of the
-- application that asks for it, if one does. Returns how many sessions were logged in.
WITH done AS (
    UPDATE login_session SET logged_in_at = sqlc.arg(now)::timestamptz, cookie_hash = sqlc.arg(new_cookie_hash), code_mac = NULL, expires_at = sqlc.arg(expires_at)::timestamptz
    WHERE login_session.id = $1 AND login_session.code_mac = sqlc.arg(code_mac) AND login_session.logged_in_at IS NULL AND login_session.ended_at IS NULL
    RETURNING login_session.email, login_session.authorization_request
), told AS (
    INSERT INTO journal (account_id, type, actor)
    SELECT a.id, 'login', person_actor('page', '', done.authorization_request ->> 'clientName', done.email, a.journal_full_addresses)
    FROM done JOIN account a ON a.owners @> ARRAY[done.email] AND a.closed_at IS NULL AND NOT a.suspended AND a.journal_retention IS NOT NULL AND a.erasing_at IS NULL
)
SELECT count(*) FROM done;

-- name: ExtendLoginSession :execrows
-- A logout that comes first wins, and an extension never shortens the session.
UPDATE login_session SET expires_at = sqlc.arg(until)::timestamptz
WHERE id = $1 AND cookie_hash = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(valid_at)::timestamptz AND expires_at < sqlc.arg(until)::timestamptz
  AND logged_in_at IS NOT NULL AND authorization_request IS NULL;

-- name: SetAuthorizationRequest :execrows
-- Of a login whose code was sent and not entered yet.
UPDATE login_session SET authorization_request = sqlc.narg(authorization_request)
WHERE id = $1 AND cookie_hash = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz AND logged_in_at IS NULL AND code_mac IS NOT NULL;

-- name: EndLoginSession :one
UPDATE login_session SET ended_at = sqlc.arg(now)::timestamptz, code_mac = NULL
WHERE id = $1 AND cookie_hash = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz
RETURNING *;
