-- What assistants may do without the yes of an owner, and what waits for it (docs/decisions/0061). A transaction that makes a change locks its
-- step, its allowance and its counts before the item.

-- name: SpendUse :execrows
-- Counts an amount in the window of a connection, which begins with the first use after the one before. No row: the limit does not permit it.
INSERT INTO connection_use AS u (account_id, connection, kind, window_start, used)
SELECT sqlc.arg(account_id)::uuid, sqlc.arg(connection)::text, sqlc.arg(kind)::text, now(), sqlc.arg(amount)::bigint WHERE sqlc.arg(amount)::bigint <= sqlc.arg(most)::bigint
ON CONFLICT (account_id, connection, kind) DO UPDATE SET
    window_start = CASE WHEN u.window_start + make_interval(secs => sqlc.arg(seconds)::float8) <= now() THEN now() ELSE u.window_start END,
    used = CASE WHEN u.window_start + make_interval(secs => sqlc.arg(seconds)::float8) <= now() THEN 0 ELSE u.used END + excluded.used
WHERE CASE WHEN u.window_start + make_interval(secs => sqlc.arg(seconds)::float8) <= now() THEN 0 ELSE u.used END + excluded.used <= sqlc.arg(most)::bigint;

-- name: UseEnds :one
-- The seconds until the window of a connection ends.
SELECT greatest(0, extract(epoch FROM window_start + make_interval(secs => sqlc.arg(seconds)::float8) - now()))::float8 AS seconds
FROM connection_use WHERE account_id = sqlc.arg(account_id) AND connection = sqlc.arg(connection) AND kind = sqlc.arg(kind);

-- name: ReturnUse :exec
-- Gives an amount back that was counted since a time, of what was not done.
UPDATE connection_use SET used = greatest(0, used - sqlc.arg(amount)::bigint)
WHERE account_id = sqlc.arg(account_id) AND connection = sqlc.arg(connection) AND kind = sqlc.arg(kind) AND window_start <= sqlc.arg(since)::timestamptz;

-- name: DatabaseNow :one
SELECT now()::timestamptz AS now;

-- name: TakeAllowance :one
UPDATE approval_allowance SET remaining = remaining - 1
WHERE account_id = sqlc.arg(account_id) AND connection = sqlc.arg(connection) AND operation = sqlc.arg(operation) AND remaining > 0 AND expires_at > now()
RETURNING granted_by;

-- name: GrantAllowance :exec
-- granted_by is the whole address of the owner, as account.owners has it, whatever the comment of its migration says: TakeAllowance returns it, and
-- what was allowed in advance ends with the ownership. Events have it as the account wants addresses.
INSERT INTO approval_allowance (account_id, connection, operation, remaining, expires_at, granted_by)
VALUES (sqlc.arg(account_id), sqlc.arg(connection), sqlc.arg(operation), sqlc.arg(remaining)::int, now() + make_interval(secs => sqlc.arg(seconds)::float8), sqlc.arg(granted_by))
ON CONFLICT (account_id, connection, operation) DO UPDATE SET remaining = excluded.remaining, expires_at = excluded.expires_at, granted_by = excluded.granted_by;

-- name: EndStep :execrows
-- Ends a step that its owner has allowed, in the transaction that makes the change. No row: it has ended, or is not allowed.
UPDATE approval_step SET state = 'done', ended_at = now() FROM approval
WHERE approval_step.id = sqlc.arg(id) AND approval_step.state = 'waiting' AND approval.id = approval_step.approval_id AND approval.state = 'allowed';

-- name: LockItemVersion :one
SELECT version FROM stored_item WHERE app_id = $1 AND id = $2 FOR UPDATE;

-- name: FailStep :execrows
UPDATE approval_step SET state = sqlc.arg(state), failure = sqlc.arg(failure), ended_at = now() WHERE id = sqlc.arg(id) AND state = 'waiting';

-- name: WaitingWith :one
-- An approval that waits for exactly these changes, and maybe others.
SELECT a.id FROM approval a JOIN approval_step s ON s.approval_id = a.id
WHERE a.account_id = sqlc.arg(account_id) AND a.connection = sqlc.arg(connection) AND a.state = 'waiting' AND a.expires_at > now() AND s.digest = ANY (sqlc.arg(digests)::bytea[])
GROUP BY a.id HAVING count(*) = cardinality(sqlc.arg(digests)::bytea[]) ORDER BY a.id LIMIT 1;

-- name: CountWaitingApprovals :one
SELECT count(*) FROM approval WHERE account_id = sqlc.arg(account_id) AND connection = sqlc.arg(connection) AND state = 'waiting' AND expires_at > now();

-- name: CloseExpired :exec
-- An approval that has expired collects no changes.
UPDATE approval SET opened_at = now() WHERE account_id = sqlc.arg(account_id) AND connection = sqlc.arg(connection) AND state = 'waiting' AND opened_at IS NULL AND expires_at <= now();

-- name: CollectApproval :one
-- The approval that collects the changes of a connection. The row stays locked, so an owner decides before or after what is added. Each call is an
-- event of the app of the connection. The fields of an event of an approval are its id and the operations.
WITH collected AS (
    INSERT INTO approval AS a (id, account_id, app_id, connection, grant_id, key_id, actor, revision, expires_at)
    VALUES (sqlc.arg(id), sqlc.arg(account_id), sqlc.arg(app_id), sqlc.arg(connection), sqlc.narg(grant_id)::uuid, sqlc.arg(key_id), sqlc.arg(actor), 1, now() + make_interval(secs => sqlc.arg(seconds)::float8))
    ON CONFLICT (account_id, connection) WHERE state = 'waiting' AND opened_at IS NULL DO UPDATE SET revision = a.revision + 1
    RETURNING a.id, a.account_id, a.app_id
), told AS (
    INSERT INTO journal (account_id, app_id, type, actor, fields)
    SELECT account.id, collected.app_id, 'approval.requested', sqlc.arg(actor), ARRAY[collected.id::text] || sqlc.arg(operations)::text[]
    FROM collected JOIN account ON account.id = collected.account_id AND account.journal_retention IS NOT NULL AND account.erasing_at IS NULL
)
SELECT collected.id FROM collected;

-- name: AddStep :exec
INSERT INTO approval_step (id, approval_id, operation, arguments, digest, item_id, version, bytes)
VALUES (sqlc.arg(id), sqlc.arg(approval_id), sqlc.arg(operation), sqlc.arg(arguments), sqlc.arg(digest), sqlc.narg(item_id)::uuid, sqlc.arg(version), sqlc.arg(bytes))
ON CONFLICT (approval_id, digest) DO NOTHING;

-- name: CountSteps :one
SELECT count(*) FROM approval_step WHERE approval_id = $1;

-- name: FindApproval :one
SELECT *, (expires_at <= now())::boolean AS expired FROM approval WHERE id = $1;

-- name: ApprovalSteps :many
SELECT * FROM approval_step WHERE approval_id = $1 ORDER BY id;

-- name: WaitingApprovals :many
-- What waits for the owners of an account, the oldest first.
SELECT id, grant_id, actor FROM approval WHERE account_id = sqlc.arg(account_id) AND state = 'waiting' AND expires_at > now() ORDER BY created_at, id LIMIT sqlc.arg(most)::int;

-- name: OpenApproval :exec
UPDATE approval SET opened_at = now() WHERE id = $1 AND state = 'waiting' AND opened_at IS NULL;

-- name: DecideApproval :one
-- One conditional update decides. Nothing is decided about what was added after the page was shown. The event has both: the owner who has decided as
-- its actor, and who has asked.
WITH decided AS (
    UPDATE approval SET state = sqlc.arg(state), decided_at = now(), decided_by = sqlc.arg(decided_by)::text
    WHERE approval.id = sqlc.arg(id) AND approval.account_id = sqlc.arg(account_id) AND approval.state = 'waiting' AND approval.revision = sqlc.arg(revision) AND approval.expires_at > now()
    RETURNING approval.id, approval.account_id, approval.app_id, approval.actor, approval.state, approval.decided_by
), told AS (
    INSERT INTO journal (account_id, app_id, type, actor, fields)
    SELECT account.id, decided.app_id, 'approval.' || decided.state,
        (person_actor('page', '', '', decided.decided_by, account.journal_full_addresses)::jsonb || jsonb_build_object('askedBy', decided.actor::jsonb))::text,
        ARRAY[decided.id::text] || ARRAY (SELECT DISTINCT s.operation FROM approval_step s WHERE s.approval_id = decided.id ORDER BY s.operation)
    FROM decided JOIN account ON account.id = decided.account_id AND account.journal_retention IS NOT NULL AND account.erasing_at IS NULL
)
SELECT count(*) FROM decided;

-- name: EndExpiredApprovals :one
-- Records that nobody has decided in time, and returns of how many approvals.
WITH ended AS (
    UPDATE approval SET state = 'expired' WHERE approval.id = ANY (ARRAY (
        SELECT e.id FROM approval e WHERE e.state = 'waiting' AND e.expires_at <= sqlc.arg(now)::timestamptz ORDER BY e.expires_at, e.id LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED))
    RETURNING approval.id, approval.account_id, approval.app_id, approval.actor
), told AS (
    INSERT INTO journal (account_id, app_id, type, actor, fields)
    SELECT account.id, ended.app_id, 'approval.expired', jsonb_build_object('kind', 'service', 'askedBy', ended.actor::jsonb)::text,
        ARRAY[ended.id::text] || ARRAY (SELECT DISTINCT s.operation FROM approval_step s WHERE s.approval_id = ended.id ORDER BY s.operation)
    FROM ended JOIN account ON account.id = ended.account_id AND account.journal_retention IS NOT NULL AND account.erasing_at IS NULL
)
SELECT count(*) FROM ended;

-- name: ExpireApprovals :execrows
DELETE FROM approval WHERE ctid = ANY (ARRAY (
    SELECT e.ctid FROM approval e WHERE e.expires_at < sqlc.arg(cutoff)::timestamptz ORDER BY e.expires_at, e.id LIMIT sqlc.arg(batch)::int FOR UPDATE SKIP LOCKED));

-- name: ItemToApprove :one
-- An item, deleted or not, as it is when its owner is asked.
SELECT version, objects, (deleted_at IS NOT NULL)::boolean AS deleted FROM stored_item WHERE app_id = $1 AND id = $2;

-- name: TakeApprovalNotice :one
-- Returns the account if its owners were told nothing for so long, and records that they are.
INSERT INTO approval_notice (account_id, told_at) VALUES (sqlc.arg(account_id)::uuid, now())
ON CONFLICT (account_id) DO UPDATE SET told_at = now() WHERE approval_notice.told_at <= now() - sqlc.arg(pause)::bigint * interval '1 microsecond'
RETURNING (SELECT account.namespace FROM account WHERE account.id = approval_notice.account_id)::text AS namespace,
    (SELECT account.name FROM account WHERE account.id = approval_notice.account_id)::text AS name,
    (SELECT account.display_name FROM account WHERE account.id = approval_notice.account_id)::text AS display_name,
    (SELECT account.owners FROM account WHERE account.id = approval_notice.account_id)::text[] AS owners;

-- name: ConnectionUses :many
-- What connections, and all of each account, have used in windows that have not ended. The windows of deletes have other lengths than those
-- of the rest.
SELECT account_id, connection, kind, used, window_start, now()::timestamptz AS now FROM connection_use
WHERE account_id = ANY (sqlc.arg(account_ids)::uuid[]) AND connection = ANY (sqlc.arg(connections)::text[]);
