-- name: SettingsLayers :one
-- One row for every account id; the columns of a layer that is not set are null.
SELECT pin.pinned_by, pin.fields AS pinned, tenant.fields AS tenant
FROM (SELECT sqlc.arg(account_id)::uuid AS account_id) AS wanted
LEFT JOIN settings_pin AS pin USING (account_id)
LEFT JOIN settings_tenant AS tenant USING (account_id);

-- name: SettingsState :one
-- SettingsLayers with the object that the account is bound to, and the version that stands for both, of one
-- snapshot.
SELECT account.object_uid, coalesce(v.settings_version, 0)::bigint AS version, pin.pinned_by, pin.fields AS pinned, tenant.fields AS tenant
FROM account LEFT JOIN account_version v USING (id)
LEFT JOIN settings_pin AS pin ON pin.account_id = account.id
LEFT JOIN settings_tenant AS tenant ON tenant.account_id = account.id
WHERE account.id = $1;

-- name: LockAccountForSettings :one
-- Changes of the pins and of the tenant's settings of one account are serialized.
SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE;

-- name: Pins :one
SELECT pinned_by, object_uid, fields FROM settings_pin WHERE account_id = $1;

-- name: SetPins :one
-- Replaces all pins, with the lock of LockAccountForSettings; no row without the account. Equal pins are
-- not written, so that no notification is sent.
WITH locked AS (
    SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE
), written AS (
    INSERT INTO settings_pin (account_id, pinned_by, object_uid, fields) SELECT id, sqlc.arg(pinned_by), sqlc.arg(object_uid), sqlc.arg(fields) FROM locked
    ON CONFLICT (account_id) DO UPDATE SET pinned_by = excluded.pinned_by, object_uid = excluded.object_uid, fields = excluded.fields
    WHERE settings_pin IS DISTINCT FROM excluded
)
SELECT id FROM locked;

-- name: RemovePins :exec
DELETE FROM settings_pin WHERE object_uid = $1;

-- name: PinnedBy :many
-- After a take-over an account is bound to no object, until Git has created it: so are its pins.
SELECT pin.pinned_by, pin.object_uid FROM settings_pin AS pin JOIN account ON account.id = pin.account_id
WHERE account.closed_at IS NULL AND account.object_uid <> '';

-- name: SetTenantSettings :one
-- Sets the given fields and keeps the others. The lock of LockAccountForSettings makes before what the change is compared with.
WITH before AS (
    SELECT old.fields FROM settings_tenant old WHERE old.account_id = sqlc.arg(account_id)
), written AS (
    INSERT INTO settings_tenant (account_id, fields) VALUES (sqlc.arg(account_id), sqlc.arg(fields))
    ON CONFLICT (account_id) DO UPDATE SET fields = settings_tenant.fields || excluded.fields
    RETURNING settings_tenant.account_id, settings_tenant.fields
), told AS (
    INSERT INTO journal (account_id, type, actor, fields)
    SELECT a.id, 'settings.changed', sqlc.arg(actor)::text, changed.names
    FROM written w JOIN account a ON a.id = w.account_id AND a.journal_retention IS NOT NULL
    CROSS JOIN LATERAL changed_settings((SELECT b.fields FROM before b), w.fields) AS changed (names)
    WHERE changed.names <> '{}'
)
SELECT fields FROM written;
