-- name: ItemsWithoutFacts :many
-- The condition of facts_version is that of the index.
SELECT page.id, page.account_id, account.bucket, account.keep_location, page.objects FROM (
    SELECT item.id, item.account_id, item.objects FROM item
    WHERE (item.facts_version = 0 OR item.facts_version = 1 AND item_file_type(item.objects) ~ '^(audio/|video/|application/pdf$)'
        OR item.facts_version < 3 AND item.placeholder IS NOT NULL)
      AND (item.account_id, item.id) > (sqlc.arg(account_id)::uuid, sqlc.arg(id)::uuid)
    ORDER BY item.account_id, item.id LIMIT sqlc.arg(batch)
) AS page JOIN account ON account.id = page.account_id ORDER BY page.account_id, page.id;

-- name: SetFacts :exec
-- Changes the document, and so the version, if something is known. What an earlier version has read stays if the file cannot be
-- read any more.
UPDATE item SET facts_version = 3, width = coalesce(sqlc.narg(width), width), height = coalesce(sqlc.narg(height), height), placeholder = coalesce(sqlc.narg(placeholder), placeholder),
    dominant_color = coalesce(sqlc.narg(dominant_color), dominant_color), duration_ms = coalesce(sqlc.narg(duration_ms), duration_ms), pages = coalesce(sqlc.narg(pages), pages),
    capture = coalesce(capture, nullif(sqlc.arg(capture)::text, '')::jsonb), version = version + CASE WHEN sqlc.arg(known)::boolean THEN 1 ELSE 0 END
WHERE id = sqlc.arg(id) AND facts_version < 3;

-- name: SkipFacts :exec
-- A row that another statement changes is left to the next pass: waiting for several could be a deadlock.
UPDATE item SET facts_version = 3
WHERE id = ANY (ARRAY(SELECT other.id FROM item other WHERE other.id = ANY (sqlc.arg(ids)::uuid[]) AND other.facts_version < 3 FOR UPDATE SKIP LOCKED));
