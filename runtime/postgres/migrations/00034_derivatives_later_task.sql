-- What makes or restores an item whose derivatives are to be made adds their task, whichever statement it is.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION add_derivatives_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- An attempt that runs may have found the item deleted: its claim ends.
    INSERT INTO work (kind, key, account_id) VALUES ('derivatives', NEW.id, NEW.account_id)
    ON CONFLICT (kind, key) DO UPDATE SET claim = NULL, instance_id = NULL, due_at = now(), attempts = 0, failure = '';
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_derivatives AFTER INSERT OR UPDATE OF deleted_at ON stored_item FOR EACH ROW
    WHEN (NEW.derivatives_state = 1 AND NEW.deleted_at IS NULL) EXECUTE FUNCTION add_derivatives_task();
