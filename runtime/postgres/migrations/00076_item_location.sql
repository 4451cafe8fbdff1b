-- No statement, of any version, stores a location in an account that keeps none (docs/decisions/0053).

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION drop_location() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM account WHERE account.id = NEW.account_id AND account.keep_location) THEN
        NEW.capture := NEW.capture - 'location' - 'cell';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_location BEFORE INSERT OR UPDATE OF capture ON stored_item FOR EACH ROW
    WHEN (NEW.capture ? 'location') EXECUTE FUNCTION drop_location();
