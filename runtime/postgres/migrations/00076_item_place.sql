-- No statement, of any version, stores a place in an account that keeps none (docs/decisions/0053).

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION drop_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM account WHERE account.id = NEW.account_id AND account.keep_location) THEN
        NEW.capture := NEW.capture - 'place' - 'cell';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_place BEFORE INSERT OR UPDATE OF capture ON stored_item FOR EACH ROW
    WHEN (NEW.capture ? 'place') EXECUTE FUNCTION drop_place();
