-- What makes an item whose file is yet to be read adds the task, whichever statement it is. Derivatives that are made later read it, too.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION add_capture_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO work (kind, key, account_id) VALUES ('capture', NEW.id, NEW.account_id) ON CONFLICT (kind, key) DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_capture AFTER INSERT OR UPDATE OF derivatives_state ON stored_item FOR EACH ROW
    WHEN (NEW.capture IS NULL AND NEW.derivatives_state <> 1 AND NEW.deleted_at IS NULL AND item_may_say_capture(NEW.objects)) EXECUTE FUNCTION add_capture_task();
