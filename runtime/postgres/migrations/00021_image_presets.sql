-- Image presets (docs/decisions/0031): they are settings, and items have a focus point. Every statement can be repeated.

-- +goose Up

-- The lock is held for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

-- The point of an image that presets with the focus point keep,
-- in thousandths of the width and the height of the image as it is displayed. Null: nobody has set a point.
ALTER TABLE stored_item
    ADD COLUMN IF NOT EXISTS focus_x smallint,
    ADD COLUMN IF NOT EXISTS focus_y smallint;
ALTER TABLE stored_item DROP CONSTRAINT IF EXISTS stored_item_focus;
ALTER TABLE stored_item ADD CONSTRAINT stored_item_focus CHECK (CASE WHEN focus_x IS NULL THEN focus_y IS NULL
    ELSE focus_y IS NOT NULL AND focus_x BETWEEN 0 AND 1000 AND focus_y BETWEEN 0 AND 1000 END) NOT VALID;

-- As before, with the columns that the table has got.
CREATE OR REPLACE VIEW item AS SELECT * FROM stored_item WHERE deleted_at IS NULL;

-- As before, and presets, an array, and originals, a text. Their contents are those of package settings.
ALTER TABLE settings_pin DROP CONSTRAINT IF EXISTS settings_pin_fields_check;
ALTER TABLE settings_pin ADD CONSTRAINT settings_pin_fields_check CHECK (jsonb_typeof(fields) = 'object'
    AND NOT jsonb_path_exists(fields - '{presets,originals}'::text[], 'strict $.* ? (@.type() != "boolean" && @.type() != "number")')
    AND coalesce(jsonb_typeof(fields -> 'presets'), 'array') = 'array' AND coalesce(jsonb_typeof(fields -> 'originals'), 'string') = 'string');
ALTER TABLE settings_tenant DROP CONSTRAINT IF EXISTS settings_tenant_fields_check;
ALTER TABLE settings_tenant ADD CONSTRAINT settings_tenant_fields_check CHECK (jsonb_typeof(fields) = 'object'
    AND NOT jsonb_path_exists(fields - '{presets,originals}'::text[], 'strict $.* ? (@.type() != "boolean" && @.type() != "number")')
    AND coalesce(jsonb_typeof(fields -> 'presets'), 'array') = 'array' AND coalesce(jsonb_typeof(fields -> 'originals'), 'string') = 'string');
