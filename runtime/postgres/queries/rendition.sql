-- name: FindRendition :one
-- claim_ended: nobody makes it.
SELECT sqlc.embed(rendition), (NOT ready AND (lease_ends < now() OR process_ended(instance_id, sqlc.arg(own)::uuid)))::boolean AS claim_ended
FROM rendition WHERE item_id = $1 AND key = $2;

-- name: NearestRendition :one
-- The stored rendition of an item that is the most like a picture of this size: one of the same shape, to within 2 percent, that is
-- not smaller, and of these the smallest. One of another shape, or the largest one, if there is none. An item has at most some
-- hundreds. internal are the presets of pictures that no client may get.
SELECT sqlc.embed(rendition) FROM rendition
WHERE item_id = $1 AND account_id = $2 AND ready AND preset <> ALL (sqlc.arg(internal)::text[])
ORDER BY 50 * abs(width::bigint * sqlc.arg(height)::bigint - height::bigint * sqlc.arg(width)::bigint)
    > greatest(width::bigint * sqlc.arg(height)::bigint, height::bigint * sqlc.arg(width)::bigint),
    width < sqlc.arg(width)::bigint, abs(width - sqlc.arg(width)::bigint)
LIMIT 1;

-- name: ClaimRendition :execrows
-- Claims a rendition that has no row. The lock of the item keeps it from being deleted before the row is there. A process
-- whose lease has ended is not recorded.
WITH kept AS MATERIALIZED (
    SELECT i.id, i.account_id FROM item i WHERE i.account_id = sqlc.arg(account_id)::uuid AND i.id = sqlc.arg(item_id)::uuid FOR SHARE
)
INSERT INTO rendition (item_id, key, id, account_id, preset, recipe_id, instance_id, lease_ends)
SELECT kept.id, sqlc.arg(key)::bytea, sqlc.arg(id)::uuid, kept.account_id, sqlc.arg(preset)::text, sqlc.arg(recipe_id)::bytea,
    (SELECT r.id FROM runtime_instance r WHERE r.id = sqlc.arg(own)::uuid AND r.lease_ends >= now()), now() + sqlc.arg(lease)::bigint * interval '1 microsecond'
FROM kept
ON CONFLICT (item_id, key) DO NOTHING;

-- name: EndClaim :execrows
-- Deletes a claim that has ended.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM timeout_set, account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE OF account_usage
)
DELETE FROM rendition USING locked WHERE rendition.account_id = locked.account_id AND item_id = sqlc.arg(item_id)::uuid AND key = sqlc.arg(key)::bytea
    AND NOT ready AND (lease_ends < now() OR process_ended(instance_id, sqlc.arg(own)::uuid));

-- name: IsItem :one
SELECT EXISTS (SELECT FROM item WHERE account_id = $1 AND id = $2);

-- name: ReserveRendition :execrows
-- Reserves the bytes of a claim if they fit the storage cap. The commit is durable: the object may be stored after it.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM timeout_set, account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE OF account_usage
), claimed AS MATERIALIZED (
    SELECT rendition.account_id FROM locked JOIN rendition ON rendition.account_id = locked.account_id
    WHERE rendition.item_id = sqlc.arg(item_id)::uuid AND rendition.key = sqlc.arg(key)::bytea AND rendition.id = sqlc.arg(id)::uuid AND NOT rendition.ready
    FOR UPDATE OF rendition
), increased AS (
    UPDATE account_usage SET bytes = account_usage.bytes + sqlc.arg(bytes)::bigint, rendition_bytes = account_usage.rendition_bytes + sqlc.arg(bytes)::bigint
    FROM claimed JOIN account ON account.id = claimed.account_id
    WHERE account_usage.account_id = claimed.account_id AND account_usage.bytes + sqlc.arg(bytes)::bigint <= account.max_storage
    RETURNING account_usage.account_id
)
UPDATE rendition SET bytes = rendition.bytes + sqlc.arg(bytes)::bigint FROM increased
WHERE rendition.account_id = increased.account_id AND rendition.item_id = sqlc.arg(item_id)::uuid AND rendition.key = sqlc.arg(key)::bytea;

-- name: HasClaim :one
SELECT EXISTS (SELECT FROM rendition WHERE item_id = $1 AND key = $2 AND id = $3 AND NOT ready);

-- name: EvictRenditions :many
-- Ends a batch of the renditions of an account that were not used for the longest time, of those after the given one: as many as
-- are needed for so many bytes, those that are being made included unless ready_only is set. Each batch begins where the one
-- before ended, so that none reads the rows that are gone. The transaction has locked the usage.
DELETE FROM rendition WHERE ctid = ANY (ARRAY (
    SELECT chosen.row FROM (
        SELECT oldest.row, sum(oldest.bytes) OVER (ORDER BY oldest.used_at, oldest.id) - oldest.bytes AS before FROM (
            SELECT r.ctid AS row, r.bytes, r.used_at, r.id FROM rendition r
            WHERE r.account_id = sqlc.arg(account_id)::uuid AND r.bytes > 0 AND (r.used_at, r.id) > (sqlc.arg(after)::timestamptz, sqlc.arg(after_id)::uuid)
                AND (r.ready OR NOT sqlc.arg(ready_only)::boolean)
            ORDER BY r.used_at, r.id LIMIT sqlc.arg(batch)::int
        ) AS oldest
    ) AS chosen WHERE chosen.before < sqlc.arg(needed)::bigint))
RETURNING rendition.bytes, rendition.used_at, rendition.id;

-- name: FinishRendition :execrows
-- Makes a rendition ready and counts it. An eager one was never used: it is the first to make room. It replaces those that the recipe made of the item before: for another point of focus.
-- The transaction has locked the usage, before this statement: of two for other points, the second one replaces the first one.
WITH done AS (
    UPDATE rendition SET ready = true, mime_type = sqlc.arg(mime_type), width = sqlc.arg(width), height = sqlc.arg(height), sha256 = sqlc.arg(sha256),
        used_at = CASE WHEN sqlc.arg(eager)::boolean THEN 'epoch' ELSE now() END
    WHERE rendition.account_id = sqlc.arg(account_id)::uuid AND rendition.item_id = sqlc.arg(item_id)::uuid AND rendition.key = sqlc.arg(key)::bytea AND rendition.id = sqlc.arg(id)::uuid
        AND NOT rendition.ready AND rendition.bytes > 0
    RETURNING rendition.account_id, rendition.item_id, rendition.key, rendition.preset, rendition.recipe_id, rendition.bytes
), replaced AS (
    DELETE FROM rendition USING done WHERE rendition.item_id = done.item_id AND rendition.recipe_id = done.recipe_id AND rendition.key <> done.key AND rendition.ready
)
INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes)
SELECT done.account_id, done.preset, done.recipe_id, 1, done.bytes FROM done
ON CONFLICT (account_id, preset, recipe_id) DO UPDATE SET items = rendition_total.items + 1, bytes = rendition_total.bytes + excluded.bytes;

-- name: EndRendition :execrows
-- Ends a rendition, or a claim, by its id.
WITH timeout_set AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM timeout_set, account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE OF account_usage
)
DELETE FROM rendition USING locked WHERE rendition.account_id = locked.account_id AND rendition.item_id = sqlc.arg(item_id)::uuid AND rendition.key = sqlc.arg(key)::bytea
    AND rendition.id = sqlc.arg(id)::uuid AND rendition.ready = sqlc.arg(ready)::boolean;

-- name: EndUnreservedClaim :execrows
-- Deletes a claim by its id, of which no bytes are reserved: the usage does not change, and is not locked.
DELETE FROM rendition WHERE item_id = sqlc.arg(item_id)::uuid AND key = sqlc.arg(key)::bytea AND id = sqlc.arg(id)::uuid AND NOT ready AND bytes = 0;

-- name: TouchRenditions :exec
-- Those that are locked are being deleted, or touched by another process.
WITH touched AS (
    SELECT r.item_id, r.key FROM (SELECT unnest(sqlc.arg(item_ids)::uuid[]) AS item_id, unnest(sqlc.arg(keys)::bytea[]) AS key) AS used
    JOIN rendition r ON r.item_id = used.item_id AND r.key = used.key AND r.ready AND r.used_at < sqlc.arg(before)::timestamptz
    WHERE r.item_id = ANY (sqlc.arg(item_ids)::uuid[])
    FOR UPDATE OF r SKIP LOCKED
)
UPDATE rendition SET used_at = sqlc.arg(now)::timestamptz FROM touched WHERE rendition.item_id = touched.item_id AND rendition.key = touched.key
    AND rendition.item_id = ANY (sqlc.arg(item_ids)::uuid[]);

-- name: RenditionTotals :many
SELECT preset, recipe_id, items, bytes FROM rendition_total WHERE account_id = $1 AND items > 0 ORDER BY preset, recipe_id;

-- name: PresetTotalsAfter :many
-- What is stored of the presets of up to page accounts, whose ids are after the given one.
SELECT page.id, page.namespace, page.name, total.preset, total.items, total.bytes
FROM (
    SELECT account.id, account.namespace, account.name FROM account
    WHERE account.closed_at IS NULL AND account.id > sqlc.arg(after)::uuid
        AND (sqlc.narg(namespaces)::text[] IS NULL OR account.namespace = ANY (sqlc.narg(namespaces)::text[]))
        AND EXISTS (SELECT FROM rendition_total WHERE rendition_total.account_id = account.id AND rendition_total.items > 0)
    ORDER BY account.id LIMIT sqlc.arg(page)::int
) AS page CROSS JOIN LATERAL (
    SELECT t.preset, sum(t.items)::bigint AS items, sum(t.bytes)::bigint AS bytes FROM rendition_total t WHERE t.account_id = page.id AND t.items > 0 GROUP BY t.preset
) AS total ORDER BY page.id;

-- name: EndClaims :execrows
-- Deletes a batch of claims whose lease ended before the cutoff. The rows of the usage are locked in the order of the
-- accounts, as in OpenUploads.
WITH chosen AS MATERIALIZED (
    SELECT r.account_id, r.item_id, r.key FROM rendition r WHERE NOT r.ready AND r.lease_ends < sqlc.arg(cutoff)::timestamptz ORDER BY r.lease_ends LIMIT sqlc.arg(batch)::int
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM account_usage WHERE account_usage.account_id IN (SELECT chosen.account_id FROM chosen)
    ORDER BY account_usage.account_id FOR UPDATE
)
DELETE FROM rendition USING chosen, locked WHERE chosen.account_id = locked.account_id AND rendition.item_id = chosen.item_id AND rendition.key = chosen.key
    AND rendition.item_id = ANY (ARRAY(SELECT chosen.item_id FROM chosen)) AND NOT rendition.ready AND rendition.lease_ends < sqlc.arg(cutoff)::timestamptz;

-- name: AccountsWithRenditions :many
-- The media of a closed account is kept as it is.
SELECT account.id FROM account WHERE account.closed_at IS NULL AND account.id > sqlc.arg(after)::uuid
    AND EXISTS (SELECT FROM rendition_total WHERE rendition_total.account_id = account.id)
ORDER BY account.id LIMIT sqlc.arg(page)::int;

-- name: MarkStaleRenditions :exec
-- Records since when no preset of an account has a recipe. recipe_ids are those that are in effect. What is counted for a preset
-- that has another name now is as fresh as its recipe.
WITH locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM account_usage WHERE account_usage.account_id = sqlc.arg(account_id)::uuid FOR UPDATE
), marked AS MATERIALIZED (
    SELECT t.account_id, t.preset, t.recipe_id,
        t.recipe_id = ANY (sqlc.arg(recipe_ids)::bytea[]) AS fresh
    FROM rendition_total t WHERE t.account_id = sqlc.arg(account_id)::uuid
)
UPDATE rendition_total SET stale_since = CASE WHEN marked.fresh THEN NULL ELSE sqlc.arg(now)::timestamptz END FROM marked, locked
WHERE rendition_total.account_id = locked.account_id AND rendition_total.preset = marked.preset AND rendition_total.recipe_id = marked.recipe_id
    AND (rendition_total.stale_since IS NULL) <> marked.fresh;

-- name: EndStaleRenditions :execrows
-- Ends a batch of renditions that are stale since before the cutoff, in the order of locks of EndClaims. Those of the accounts
-- in kept do not end.
WITH chosen AS MATERIALIZED (
    SELECT r.account_id, r.item_id, r.key FROM ( -- OFFSET 0: what is stale is found first
        SELECT stale.account_id, stale.preset, stale.recipe_id FROM rendition_total stale
        WHERE stale.stale_since < sqlc.arg(cutoff)::timestamptz AND stale.account_id <> ALL (sqlc.arg(kept)::uuid[]) OFFSET 0) AS t
    JOIN account ON account.id = t.account_id AND account.closed_at IS NULL
    CROSS JOIN LATERAL (
        SELECT s.account_id, s.item_id, s.key FROM rendition s
        WHERE s.account_id = t.account_id AND s.preset = t.preset AND s.recipe_id = t.recipe_id AND s.ready LIMIT sqlc.arg(batch)::int) AS r
    LIMIT sqlc.arg(batch)::int
), locked AS MATERIALIZED (
    SELECT account_usage.account_id FROM account_usage WHERE account_usage.account_id IN (SELECT chosen.account_id FROM chosen)
    ORDER BY account_usage.account_id FOR UPDATE
)
DELETE FROM rendition USING chosen, locked WHERE chosen.account_id = locked.account_id AND rendition.item_id = chosen.item_id AND rendition.key = chosen.key
    AND rendition.item_id = ANY (ARRAY(SELECT chosen.item_id FROM chosen)) AND rendition.ready;

-- name: ForgetStaleTotals :exec
DELETE FROM rendition_total WHERE stale_since < sqlc.arg(cutoff)::timestamptz AND items = 0;
