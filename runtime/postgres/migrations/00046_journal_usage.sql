-- The use of an account that reaches 80, 90 or 100 % of its storage cap is an event of its journal (docs/decisions/0048).

-- +goose Up
-- 80, 90 and 100 % of the storage cap of an account that has a journal; null without one. It is empty until the next change of the use
-- looks it up: no row is written now, and programs of the version before may add rows.
ALTER TABLE account_usage ADD COLUMN journal_bounds bigint[] DEFAULT '{}';

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

-- +goose StatementBegin
CREATE FUNCTION usage_bounds(cap bigint) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY[cap - cap / 5, cap - cap / 10, cap];
END
$$;
-- +goose StatementEnd

-- The numbers are how many bounds the use has reached. A change that reaches several is one event, of the highest.
-- +goose StatementBegin
CREATE FUNCTION write_usage_event(changed_account uuid, before integer, after integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF after > before THEN
        PERFORM write_account_event(changed_account, 'usage.threshold', '{"kind":"service"}', ARRAY[('{80,90,100}'::text[])[after]]);
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION journal_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bounds bigint[] := NEW.journal_bounds;
BEGIN
    IF cardinality(bounds) = 0 THEN
        -- A change of the account that is not committed yet waits for the row of the use, and sets the bounds again.
        bounds := (SELECT CASE WHEN account.journal_retention IS NOT NULL THEN usage_bounds(account.max_storage) END FROM account WHERE account.id = NEW.account_id);
        UPDATE account_usage SET journal_bounds = bounds WHERE account_usage.account_id = NEW.account_id;
    END IF;
    PERFORM write_usage_event(NEW.account_id, width_bucket(OLD.bytes, bounds), width_bucket(NEW.bytes, bounds));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- The condition is short: PostgreSQL reads its text for each statement, also for those of uploads that reach no bound.
CREATE TRIGGER account_usage_journal AFTER UPDATE OF bytes ON account_usage FOR EACH ROW
    WHEN (cardinality(NEW.journal_bounds) = 0 OR width_bucket(NEW.bytes, NEW.journal_bounds) > width_bucket(OLD.bytes, NEW.journal_bounds))
    EXECUTE FUNCTION journal_usage();
