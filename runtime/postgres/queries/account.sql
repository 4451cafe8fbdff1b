-- name: InsertAccount :one
-- The account with its apps, and a pending key for each.
WITH created AS (
    INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended, mcp_read_only, mcp_tools, mcp_toolsets, cors_origins, undo_window, undo_for, journal_retention, journal_full_addresses, gate, search, keep_location, approval, ceilings)
    VALUES (sqlc.arg(id), sqlc.arg(namespace), sqlc.arg(name), sqlc.arg(namespace_uid), sqlc.arg(object_uid), sqlc.arg(display_name), sqlc.arg(owners)::text[],
        sqlc.arg(max_storage), sqlc.arg(max_upload_size), sqlc.arg(bucket), sqlc.arg(suspended), sqlc.arg(mcp_read_only), sqlc.arg(mcp_tools)::text[], sqlc.arg(mcp_toolsets)::text[], sqlc.arg(cors_origins)::text[],
        sqlc.narg(undo_window)::bigint, sqlc.arg(undo_for), sqlc.narg(journal_retention)::bigint, sqlc.arg(journal_full_addresses), sqlc.narg(gate)::jsonb, sqlc.narg(search)::jsonb, sqlc.arg(keep_location), sqlc.narg(approval)::jsonb, sqlc.narg(ceilings)::jsonb)
    RETURNING *
), used AS (
    INSERT INTO account_usage (account_id) SELECT created.id FROM created
), opened AS (
    INSERT INTO app (id, account_id, name, key_sequence)
    SELECT listed.id, sqlc.arg(id), listed.name, 1
    FROM (SELECT unnest(sqlc.arg(app_ids)::uuid[]) AS id, unnest(sqlc.arg(app_names)::text[]) AS name) AS listed
), totals AS (
    INSERT INTO app_total (app_id, account_id, slot)
    SELECT listed.id, sqlc.arg(id), slot FROM unnest(sqlc.arg(app_ids)::uuid[]) AS listed (id) CROSS JOIN generate_series(0, 15) AS slot
), issued AS (
    INSERT INTO api_key (id, account_id, app_id, hash, generation, sequence, object_uid, overlap)
    SELECT listed.id, sqlc.arg(id), listed.app_id, listed.hash, sqlc.arg(generation)::bigint, 1, sqlc.arg(object_uid), 0
    FROM (SELECT unnest(sqlc.arg(key_ids)::uuid[]) AS id, unnest(sqlc.arg(app_ids)::uuid[]) AS app_id, unnest(sqlc.arg(hashes)::bytea[]) AS hash) AS listed
)
SELECT * FROM created;

-- name: FindAccount :one
SELECT * FROM account WHERE namespace = $1 AND name = $2 AND closed_at IS NULL;

-- name: UpdateAccount :one
-- Writes, and so notifies, only if a value differs. A former leader that was late must not apply
-- the spec of an object that was replaced: the account is bound to the other one by then.
UPDATE account SET display_name = sqlc.arg(display_name), owners = sqlc.arg(owners)::text[], max_storage = sqlc.arg(max_storage),
    max_upload_size = sqlc.arg(max_upload_size), suspended = sqlc.arg(suspended),
    mcp_read_only = sqlc.arg(mcp_read_only), mcp_tools = sqlc.arg(mcp_tools)::text[], mcp_toolsets = sqlc.arg(mcp_toolsets)::text[], cors_origins = sqlc.arg(cors_origins)::text[],
    undo_window = sqlc.narg(undo_window)::bigint, undo_for = sqlc.arg(undo_for), journal_retention = sqlc.narg(journal_retention)::bigint, journal_full_addresses = sqlc.arg(journal_full_addresses), gate = sqlc.narg(gate)::jsonb, search = sqlc.narg(search)::jsonb, keep_location = sqlc.arg(keep_location), approval = sqlc.narg(approval)::jsonb, ceilings = sqlc.narg(ceilings)::jsonb
WHERE id = sqlc.arg(id) AND object_uid = sqlc.arg(object_uid) AND closed_at IS NULL AND (display_name, owners, max_storage, max_upload_size, suspended, mcp_read_only, mcp_tools, mcp_toolsets, cors_origins, undo_window, undo_for, journal_retention, journal_full_addresses, gate, search, keep_location, approval, ceilings)
    IS DISTINCT FROM (sqlc.arg(display_name), sqlc.arg(owners)::text[], sqlc.arg(max_storage), sqlc.arg(max_upload_size), sqlc.arg(suspended),
        sqlc.arg(mcp_read_only), sqlc.arg(mcp_tools)::text[], sqlc.arg(mcp_toolsets)::text[], sqlc.arg(cors_origins)::text[],
        sqlc.narg(undo_window)::bigint, sqlc.arg(undo_for), sqlc.narg(journal_retention)::bigint, sqlc.arg(journal_full_addresses)::boolean, sqlc.narg(gate)::jsonb, sqlc.narg(search)::jsonb, sqlc.arg(keep_location)::boolean, sqlc.narg(approval)::jsonb, sqlc.narg(ceilings)::jsonb)
RETURNING *;

-- name: LockName :exec
-- Serializes the bindings to one namespace and name.
SELECT pg_advisory_xact_lock(sqlc.arg(class)::int, hashtext(sqlc.arg(namespace)::text || '/' || sqlc.arg(name)::text));

-- name: LockOpenAccount :one
SELECT * FROM account WHERE namespace = $1 AND name = $2 AND closed_at IS NULL FOR NO KEY UPDATE;

-- name: LockClosedAccounts :many
-- The retained accounts of a namespace and name, and others by id. The order of the locks is
-- the same everywhere, so that two bindings cannot deadlock.
SELECT sqlc.embed(account), installation.id AS installation_id
FROM account CROSS JOIN installation
WHERE account.closed_at IS NOT NULL
    AND (account.namespace = sqlc.arg(namespace) AND account.name = sqlc.arg(name) OR account.id = ANY (sqlc.arg(ids)::uuid[]))
ORDER BY account.id FOR NO KEY UPDATE OF account;

-- name: BindAccount :one
-- Opens the account, if it is closed, for a MediaAccount. The bucket is not known to be the
-- account's before its marker was read again.
UPDATE account SET namespace = $2, name = $3, namespace_uid = $4, object_uid = $5,
    bucket_owned = bucket_owned AND closed_at IS NULL, closed_at = NULL, erase_after = NULL
WHERE id = $1 AND erasing_at IS NULL
RETURNING *;

-- name: SetBucketOwned :exec
UPDATE account SET bucket_owned = $2, bucket_claimed = bucket_claimed OR $2 WHERE id = $1 AND bucket_owned <> $2;

-- name: OwnedBucket :one
SELECT bucket FROM account WHERE bucket_owned AND closed_at IS NULL ORDER BY id LIMIT 1;

-- name: LockAccount :one
SELECT * FROM account WHERE id = $1 FOR NO KEY UPDATE;

-- name: HasItems :one
SELECT EXISTS (SELECT 1 FROM stored_item WHERE account_id = $1);

-- name: SampleFiles :many
-- The originals of the oldest and of the newest items.
SELECT (sample.objects -> 0 ->> 'key')::text AS key FROM (
    (SELECT o.objects FROM stored_item o WHERE o.account_id = sqlc.arg(account_id) ORDER BY o.id LIMIT sqlc.arg(items)::int)
    UNION
    (SELECT n.objects FROM stored_item n WHERE n.account_id = sqlc.arg(account_id) ORDER BY n.id DESC LIMIT sqlc.arg(items)::int)
) AS sample WHERE sample.objects -> 0 ->> 'key' <> '';

-- name: ListOrigins :many
-- The web origins of all open accounts.
SELECT DISTINCT unnest(cors_origins)::text FROM account WHERE closed_at IS NULL AND cors_origins IS NOT NULL ORDER BY 1;
