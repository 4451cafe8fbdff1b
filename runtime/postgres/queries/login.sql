-- name: InsertClient :one
-- The same words give the same id: nothing is written when it is there already.
INSERT INTO login_client (id, name, website, redirect_uris, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO NOTHING
RETURNING *;

-- name: Client :one
SELECT * FROM login_client WHERE id = $1;

-- name: UseClient :exec
UPDATE login_client SET used_at = sqlc.arg(now)::timestamptz WHERE id = $1;

-- name: InsertRequest :exec
INSERT INTO login_request (id, browser, ask, expires_at) VALUES ($1, $2, $3, $4);

-- name: Request :one
SELECT * FROM login_request WHERE id = $1 AND browser = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz;

-- name: LockRequest :one
SELECT * FROM login_request WHERE id = $1 AND browser = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz FOR UPDATE;

-- name: SetCode :exec
UPDATE login_request SET address = $2, code_mac = $3, code_sent_at = sqlc.arg(sent_at)::timestamptz, code_expires_at = sqlc.arg(expires_at)::timestamptz
WHERE id = $1;

-- name: TakeTry :one
-- A try is counted before the code is compared, so that tries at the same time count too.
UPDATE login_request SET tries = tries + 1
WHERE id = $1 AND browser = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz AND logged_in_at IS NULL
  AND tries < sqlc.arg(most)::int
RETURNING *;

-- name: LogIn :execrows
-- The code that was found right logs in once, and the browser gets a new cookie.
UPDATE login_request SET logged_in_at = sqlc.arg(now)::timestamptz, browser = sqlc.arg(new_browser), code_mac = NULL, expires_at = sqlc.arg(expires_at)::timestamptz
WHERE id = $1 AND code_mac = sqlc.arg(code_mac) AND logged_in_at IS NULL AND ended_at IS NULL;

-- name: EndRequest :one
UPDATE login_request SET ended_at = sqlc.arg(now)::timestamptz, code_mac = NULL
WHERE id = $1 AND browser = $2 AND ended_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz
RETURNING *;

-- name: TakeAttempt :execrows
-- One more of its kind, unless there were as many since a time; no row is the refusal.
INSERT INTO login_attempt AS a (kind, subject, times, last)
VALUES (sqlc.arg(kind), sqlc.arg(subject), ARRAY[sqlc.arg(now)::timestamptz], sqlc.arg(now)::timestamptz)
ON CONFLICT (kind, subject) DO UPDATE
SET times = array_append((SELECT array_agg(t) FROM unnest(a.times) AS t WHERE t > sqlc.arg(since)::timestamptz), excluded.last), last = excluded.last
WHERE (SELECT count(*) FROM unnest(a.times) AS t WHERE t > sqlc.arg(since)::timestamptz) < sqlc.arg(most)::int;

-- name: OldestAttempt :one
-- When the first of those that count was done: an interval later there is room again.
SELECT min(t)::timestamptz AS oldest FROM login_attempt, unnest(times) AS t
WHERE kind = sqlc.arg(kind) AND subject = sqlc.arg(subject) AND t > sqlc.arg(since)::timestamptz
HAVING count(*) > 0;

-- name: InsertLetter :exec
INSERT INTO letter (sealed, not_before, expires_at) VALUES ($1, $2, $3);

-- name: ClaimLetters :many
UPDATE letter SET not_before = sqlc.arg(lease_ends)::timestamptz, attempts = attempts + 1
WHERE id IN (SELECT l.id FROM letter l WHERE l.not_before <= sqlc.arg(now)::timestamptz ORDER BY l.not_before LIMIT sqlc.arg(most)::int FOR UPDATE SKIP LOCKED)
RETURNING *;

-- name: DeleteLetter :exec
DELETE FROM letter WHERE id = $1;

-- name: DelayLetter :exec
UPDATE letter SET not_before = $2 WHERE id = $1;

-- name: OwnsSomething :one
SELECT EXISTS (SELECT FROM account WHERE owners @> ARRAY[sqlc.arg(address)::text] AND closed_at IS NULL AND NOT suspended);

-- name: AccountsOfOwner :many
SELECT * FROM account
WHERE owners @> ARRAY[sqlc.arg(address)::text] AND closed_at IS NULL AND NOT suspended
ORDER BY display_name, namespace, name LIMIT sqlc.arg(most)::int;

-- name: ShareAccountOfOwner :one
-- Locked against changes until the grant is in, so that the trigger that ends logins sees it.
SELECT * FROM account
WHERE id = $1 AND owners @> ARRAY[sqlc.arg(address)::text] AND closed_at IS NULL AND NOT suspended FOR SHARE;

-- name: DefaultKey :one
-- The key that a login stands for: the newest of the Default App that is valid.
SELECT k.* FROM api_key k JOIN app ON app.id = k.app_id AND app.closed_at IS NULL
WHERE app.account_id = $1 AND app.name = sqlc.arg(app) AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
ORDER BY k.created_at DESC, k.id DESC LIMIT 1;

-- name: InsertGrant :exec
INSERT INTO login_grant (id, account_id, key_id, address, client_id, client_name, redirect_uri, scopes, resource, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: InsertCode :exec
INSERT INTO login_code (hash, grant_id, challenge, expires_at) VALUES ($1, $2, $3, $4);

-- name: UseCode :one
UPDATE login_code SET used_at = sqlc.arg(now)::timestamptz WHERE hash = $1 AND used_at IS NULL RETURNING *;

-- name: UsedCode :one
SELECT * FROM login_code WHERE hash = $1;

-- name: LockGrant :one
SELECT sqlc.embed(g), account.suspended, (account.closed_at IS NULL AND g.address = ANY (account.owners))::bool AS owner,
    (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)::bool AS key_valid
FROM login_grant g JOIN account ON account.id = g.account_id JOIN api_key k ON k.id = g.key_id
WHERE g.id = $1 AND g.revoked_at IS NULL FOR UPDATE OF g;

-- name: InsertLoginToken :exec
INSERT INTO login_token (hash, grant_id, refresh, created_at, expires_at) VALUES ($1, $2, $3, $4, $5);

-- name: LockRefreshToken :one
SELECT * FROM login_token WHERE hash = $1 AND refresh FOR UPDATE;

-- name: RotateToken :exec
UPDATE login_token SET rotated_at = coalesce(rotated_at, sqlc.arg(now)::timestamptz), pairs = pairs + 1 WHERE hash = $1;

-- name: MoveGrant :exec
-- Moves the session to another key of the same app.
UPDATE login_grant SET key_id = $2 WHERE id = $1 AND key_id <> $2;

-- name: RevokeGrant :execrows
UPDATE login_grant SET revoked_at = sqlc.arg(now)::timestamptz, revoked_why = sqlc.arg(why) WHERE id = $1 AND revoked_at IS NULL;

-- name: AnyToken :one
-- Access or refresh token, with the application that it was given to.
SELECT t.grant_id, g.client_id FROM login_token t JOIN login_grant g ON g.id = t.grant_id WHERE t.hash = $1;

-- name: Session :one
-- Who an access token stands for: it ends with its grant, its owner, its account and its key.
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key), g.id AS grant_id, g.scopes, g.resource, t.expires_at AS token_expires_at
FROM login_token t
JOIN login_grant g ON g.id = t.grant_id AND g.revoked_at IS NULL
JOIN account ON account.id = g.account_id AND account.closed_at IS NULL AND g.address = ANY (account.owners)
JOIN api_key ON api_key.id = g.key_id
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
WHERE t.hash = $1 AND NOT t.refresh;

-- name: SessionOfGrant :one
SELECT sqlc.embed(account), sqlc.embed(app), sqlc.embed(api_key), g.id AS grant_id, g.scopes, g.resource
FROM login_grant g
JOIN account ON account.id = g.account_id AND account.closed_at IS NULL AND g.address = ANY (account.owners)
JOIN api_key ON api_key.id = g.key_id
JOIN app ON app.id = api_key.app_id AND app.closed_at IS NULL
WHERE g.id = $1 AND g.revoked_at IS NULL;

-- name: TouchGrants :exec
-- Whoever is held by somebody else is used again soon.
WITH free AS (SELECT g.id FROM login_grant g WHERE g.id = ANY (sqlc.arg(ids)::uuid[]) FOR NO KEY UPDATE SKIP LOCKED)
UPDATE login_grant SET last_used_at = greatest(login_grant.last_used_at, used.at)
FROM free, (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(used_at)::timestamptz[]) AS at) AS used
WHERE login_grant.id = used.id AND free.id = used.id;

-- name: Connections :many
-- Grants that can still be used.
SELECT sqlc.embed(g), account.display_name, account.name FROM login_grant g
JOIN account ON account.id = g.account_id AND account.closed_at IS NULL AND NOT account.suspended AND g.address = ANY (account.owners)
JOIN api_key k ON k.id = g.key_id AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
WHERE g.address = $1 AND g.revoked_at IS NULL
  AND EXISTS (SELECT FROM login_token t WHERE t.grant_id = g.id AND t.expires_at > sqlc.arg(now)::timestamptz)
ORDER BY g.created_at DESC LIMIT sqlc.arg(most)::int;

-- name: RevokeOwn :execrows
-- One grant of the address, or all when there is no id: those that can still be used.
WITH own AS (
    SELECT o.id FROM login_grant o WHERE o.address = $1 AND o.revoked_at IS NULL AND (sqlc.narg(id)::uuid IS NULL OR o.id = sqlc.narg(id))
    ORDER BY o.id FOR UPDATE)
UPDATE login_grant g SET revoked_at = sqlc.arg(now)::timestamptz, revoked_why = 'ended by its owner'
FROM own, api_key k
WHERE g.id = own.id AND k.id = g.key_id AND (k.expires_at IS NULL OR k.expires_at > sqlc.arg(now)::timestamptz)
  AND (EXISTS (SELECT FROM login_token t WHERE t.grant_id = g.id AND t.expires_at > sqlc.arg(now)::timestamptz)
    OR EXISTS (SELECT FROM login_code c WHERE c.grant_id = g.id AND c.used_at IS NULL AND c.expires_at > sqlc.arg(now)::timestamptz));

-- name: EndGrantsOfKeys :execrows
-- Sessions that stayed with a key until its end.
WITH free AS (
    SELECT f.id FROM login_grant f JOIN api_key ON api_key.id = f.key_id
    WHERE f.revoked_at IS NULL AND api_key.expires_at <= sqlc.arg(now)::timestamptz FOR NO KEY UPDATE OF f SKIP LOCKED)
UPDATE login_grant g SET revoked_at = k.expires_at, revoked_why = 'its key ended'
FROM free, api_key k WHERE g.id = free.id AND k.id = g.key_id;

-- name: PurgeRequests :execrows
DELETE FROM login_request WHERE id IN (SELECT r.id FROM login_request r WHERE r.expires_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int);

-- name: PurgeTokens :execrows
DELETE FROM login_token WHERE hash IN (SELECT t.hash FROM login_token t WHERE t.expires_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int);

-- name: PurgeGrants :execrows
-- Those that ended, and those that have neither a token nor a code that still counts.
DELETE FROM login_grant WHERE id IN (
    SELECT g.id FROM login_grant g
    WHERE g.revoked_at < sqlc.arg(before)::timestamptz
       OR g.created_at < sqlc.arg(before)::timestamptz AND NOT EXISTS (SELECT FROM login_token t WHERE t.grant_id = g.id)
          AND NOT EXISTS (SELECT FROM login_code c WHERE c.grant_id = g.id AND c.expires_at > sqlc.arg(before)::timestamptz)
    LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED);

-- name: PurgeClients :execrows
DELETE FROM login_client WHERE id IN (
    SELECT c.id FROM login_client c
    WHERE c.created_at < sqlc.arg(before)::timestamptz AND (c.used_at IS NULL OR c.used_at < sqlc.arg(before)::timestamptz)
      AND NOT EXISTS (SELECT FROM login_grant g WHERE g.client_id = c.id)
      AND NOT EXISTS (SELECT FROM login_request r WHERE r.ask ->> 'clientId' = c.id)
    LIMIT sqlc.arg(batch)::int);

-- name: PurgeAttempts :execrows
DELETE FROM login_attempt WHERE (kind, subject) IN (SELECT a.kind, a.subject FROM login_attempt a WHERE a.last < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int);

-- name: PurgeLetters :execrows
DELETE FROM letter WHERE id IN (SELECT l.id FROM letter l WHERE l.expires_at < sqlc.arg(before)::timestamptz LIMIT sqlc.arg(batch)::int);
