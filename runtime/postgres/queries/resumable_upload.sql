-- name: InsertResumable :exec
INSERT INTO resumable_upload (item_id, account_id, app_id, length, file_name, declared_type, access, caption, group_label, metadata, expires_at, item_metadata, capability)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: FindResumable :one
-- reserved and lease_ends are null when the upload has ended. A running upload expires with its lease.
SELECT sqlc.embed(resumable_upload), upload.reserved, upload.lease_ends FROM resumable_upload LEFT JOIN upload ON upload.item_id = resumable_upload.item_id
WHERE resumable_upload.app_id = $1 AND resumable_upload.item_id = $2;

-- name: ListResumables :many
-- A page of an app's running uploads, the newest first. They are read in the order of the index, from the cursor on, until
-- the page is full. What does not belong to the page is read past: uploads that have expired, and those of other
-- capabilities. nth bounds that: the row of the last one that may be examined is returned in any case, so the next page
-- begins behind it. listed reports whether it belongs to the page.
-- OFFSET 0 looks each row up by its id. Without it, the planner may read the uploads of all accounts and compare them
-- with the page. The capability of each examined upload is looked up only where it counts.
WITH page AS MATERIALIZED (
    SELECT e.item_id, e.lease_ends, e.opened_at, e.nth, matches.listed
    FROM (
        SELECT u.item_id, u.lease_ends, u.opened_at, row_number() OVER (ORDER BY u.item_id DESC) AS nth FROM upload u
        WHERE u.app_id = sqlc.arg(app_id)::uuid AND u.instance_id IS NULL AND u.item_id < sqlc.arg(before)::uuid
        ORDER BY u.item_id DESC LIMIT sqlc.arg(examine)::int
    ) e LEFT JOIN LATERAL (
        SELECT r.capability ->> 'id' AS id FROM resumable_upload r WHERE r.item_id = e.item_id AND sqlc.arg(capability)::text <> '' OFFSET 0
    ) owner ON true CROSS JOIN LATERAL (
        SELECT date_trunc('second', e.lease_ends) > sqlc.arg(now)::timestamptz AND (sqlc.arg(capability)::text = '' OR coalesce(owner.id = sqlc.arg(capability)::text, false)) AS listed
    ) matches
    WHERE matches.listed OR e.nth = sqlc.arg(examine)::int
    ORDER BY e.item_id DESC LIMIT sqlc.arg(page_size)::int
)
SELECT page.item_id, page.lease_ends, page.opened_at, (page.nth = sqlc.arg(examine)::int)::boolean AS last_examined, (page.listed AND detail.item_id IS NOT NULL)::boolean AS listed,
    coalesce(detail.file_name, '')::text AS file_name, detail.length, coalesce(detail.received, 0)::bigint AS received, coalesce(detail.declared_type, '')::text AS declared_type,
    coalesce(detail.access, '')::text AS access, coalesce(detail.caption, '')::text AS caption, coalesce(detail.group_label, '')::text AS group_label
FROM page LEFT JOIN LATERAL (
    SELECT r.item_id, r.file_name, r.length, r.received, r.declared_type, r.access, r.caption, r.group_label FROM resumable_upload r WHERE r.item_id = page.item_id OFFSET 0
) detail ON true
ORDER BY page.item_id DESC;

-- name: SetLength :execrows
UPDATE resumable_upload SET length = $3 WHERE app_id = $1 AND item_id = $2 AND length IS NULL;

-- name: SaveProgress :execrows
-- Saves only if the offset is still the one that the caller read: a replica that lost the upload to another one
-- changes nothing, also if both have the same offset, each with a multipart upload of its own.
WITH running AS (
    UPDATE upload SET lease_ends = sqlc.arg(expires_at) WHERE upload.item_id = sqlc.arg(item_id) RETURNING item_id
)
UPDATE resumable_upload SET received = sqlc.arg(received), digest = sqlc.arg(digest), multipart_id = sqlc.arg(multipart_id), parts = sqlc.arg(parts),
    single_put = sqlc.arg(single_put), incomplete_part = sqlc.arg(incomplete_part), incomplete_bytes = sqlc.arg(incomplete_bytes), incomplete_hash = sqlc.arg(incomplete_hash), mime_type = sqlc.arg(mime_type), head = sqlc.arg(head), expires_at = sqlc.arg(expires_at)
FROM running WHERE resumable_upload.item_id = running.item_id AND resumable_upload.received = sqlc.arg(before)::bigint
    AND (resumable_upload.multipart_id IN ('', sqlc.arg(multipart_id)) OR sqlc.arg(multipart_id) = '');

-- name: DeleteExpiredResumables :execrows
DELETE FROM resumable_upload WHERE item_id = ANY (ARRAY(
    SELECT r.item_id FROM resumable_upload r WHERE r.expires_at < sqlc.arg(cutoff)::timestamptz
        AND NOT EXISTS (SELECT FROM upload WHERE upload.item_id = r.item_id)
    ORDER BY r.expires_at LIMIT sqlc.arg(batch)::int));
