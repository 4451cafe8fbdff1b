-- The use of an account that reaches 80, 90 or 100 % of its storage cap is an event of its journal (docs/decisions/0048).

-- +goose Up
-- The storage cap of an account that has a journal; null without one. It is -1 until the next change of the use looks it up: no row is
-- written now, and programs of the version before may add rows.
ALTER TABLE account_usage ADD COLUMN journal_cap bigint DEFAULT '-1';

-- Writes an event of the account with its actor, if the account has a journal. An account that is erased has no more events.
-- +goose StatementBegin
CREATE FUNCTION write_account_event(changed_account uuid, event text, by text, changed text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM account WHERE account.id = changed_account AND account.journal_retention IS NOT NULL AND account.erasing_at IS NULL) THEN
        INSERT INTO journal (account_id, type, actor, fields) VALUES (changed_account, event, by, changed);
    END IF;
END
$$;
-- +goose StatementEnd

-- Returns the highest bound that the bytes have reached; 0 for none, and without a cap.
-- +goose StatementBegin
CREATE FUNCTION usage_percent(bytes bigint, cap bigint) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN bytes >= cap THEN 100 WHEN bytes >= cap - cap / 10 THEN 90 WHEN bytes >= cap - cap / 5 THEN 80 ELSE 0 END;
END
$$;
-- +goose StatementEnd

-- A change that reaches several bounds is one event, of the highest.
-- +goose StatementBegin
CREATE FUNCTION write_usage_event(changed_account uuid, before integer, after integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF after > before THEN
        PERFORM write_account_event(changed_account, 'usage.threshold', '{"kind":"service"}', ARRAY[after::text]);
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION journal_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    cap bigint := NEW.journal_cap;
BEGIN
    IF cap = -1 THEN
        -- A change of the account that is not committed yet waits for the row of the use, and sets the cap again.
        cap := (SELECT CASE WHEN account.journal_retention IS NOT NULL THEN account.max_storage END FROM account WHERE account.id = NEW.account_id);
        UPDATE account_usage SET journal_cap = cap WHERE account_usage.account_id = NEW.account_id;
    END IF;
    PERFORM write_usage_event(NEW.account_id, usage_percent(OLD.bytes, cap), usage_percent(NEW.bytes, cap));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- The condition is that of usage_percent, written out: a function would be called for each upload.
CREATE TRIGGER account_usage_journal AFTER UPDATE OF bytes ON account_usage FOR EACH ROW
    WHEN (NEW.journal_cap = -1 OR NEW.bytes > OLD.bytes AND NEW.bytes >= NEW.journal_cap - NEW.journal_cap / 5 AND (
        OLD.bytes < NEW.journal_cap - NEW.journal_cap / 5
        OR OLD.bytes < NEW.journal_cap - NEW.journal_cap / 10 AND NEW.bytes >= NEW.journal_cap - NEW.journal_cap / 10
        OR OLD.bytes < NEW.journal_cap AND NEW.bytes >= NEW.journal_cap))
    EXECUTE FUNCTION journal_usage();
