-- What makes an item whose file is to be checked, or wants one sealed that was not, adds the task, whichever statement it is.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION add_scan_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO work (kind, key, account_id) VALUES ('scan', NEW.id, NEW.account_id) ON CONFLICT (kind, key) DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_scan AFTER INSERT OR UPDATE OF gate_state ON stored_item FOR EACH ROW
    WHEN (NEW.gate_state IN (1, 4) AND NEW.deleted_at IS NULL) EXECUTE FUNCTION add_scan_task();
