-- As before, and derivatives, a text.

-- +goose Up
ALTER TABLE settings_pin
    DROP CONSTRAINT settings_pin_fields_check,
    ADD CONSTRAINT settings_pin_fields_check CHECK (jsonb_typeof(fields) = 'object'
        AND NOT jsonb_path_exists(fields - '{presets,originals,derivatives}'::text[], 'strict $.* ? (@.type() != "boolean" && @.type() != "number")')
        AND coalesce(jsonb_typeof(fields -> 'presets'), 'array') = 'array' AND coalesce(jsonb_typeof(fields -> 'originals'), 'string') = 'string'
        AND coalesce(jsonb_typeof(fields -> 'derivatives'), 'string') = 'string') NOT VALID;
