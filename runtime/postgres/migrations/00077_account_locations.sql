-- An account that keeps locations no longer has those removed that are stored.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION add_locations_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The second task finds what a statement stores that runs now, and does not see this change.
    INSERT INTO work (kind, key, account_id, due_at) VALUES ('locations', gen_random_uuid(), NEW.id, now()), ('locations', gen_random_uuid(), NEW.id, now() + interval '1 minute');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_locations AFTER UPDATE OF keep_location ON account FOR EACH ROW
    WHEN (OLD.keep_location AND NOT NEW.keep_location) EXECUTE FUNCTION add_locations_task();
