-- Changed settings are events of the journal (docs/decisions/0048). The statement of a tenant's change writes its own event, which has the
-- actor of the request.

-- +goose Up
-- Returns the names of the settings that differ between two layers, sorted. A layer that is not set is null.
-- +goose StatementBegin
CREATE FUNCTION changed_settings(before jsonb, after jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(names.name ORDER BY names.name COLLATE "C"), '{}')
    FROM (SELECT jsonb_object_keys(before) UNION SELECT jsonb_object_keys(after)) AS names (name)
    WHERE before -> names.name IS DISTINCT FROM after -> names.name
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION journal_pins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text[] := changed_settings(OLD.fields, NEW.fields);
BEGIN
    -- Another object may pin the same.
    IF changed <> '{}' THEN
        PERFORM write_operator_event(coalesce(NEW.account_id, OLD.account_id), NULL, 'settings.changed', changed);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER settings_pin_journal AFTER INSERT OR UPDATE OR DELETE ON settings_pin FOR EACH ROW EXECUTE FUNCTION journal_pins();
