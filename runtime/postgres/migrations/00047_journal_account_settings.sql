-- A changed storage cap moves the bounds that the journal tells. The journal has whole e-mail addresses if the account says so
-- (docs/decisions/0048).

-- +goose Up
ALTER TABLE account ADD COLUMN journal_full_addresses boolean NOT NULL DEFAULT false;

-- A cap that is lowered below the use is told at once. A journal that begins tells nothing: no bound was crossed.
-- +goose StatementBegin
CREATE FUNCTION journal_bounds_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    used bigint;
BEGIN
    UPDATE account_usage SET journal_bounds = CASE WHEN NEW.journal_retention IS NOT NULL THEN usage_bounds(NEW.max_storage) END
    WHERE account_usage.account_id = NEW.id RETURNING account_usage.bytes INTO used;
    IF OLD.journal_retention IS NOT NULL AND NEW.journal_retention IS NOT NULL THEN
        PERFORM write_usage_event(NEW.id, width_bucket(used, usage_bounds(OLD.max_storage)), width_bucket(used, usage_bounds(NEW.max_storage)));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_journal_bounds AFTER UPDATE OF max_storage, journal_retention ON account FOR EACH ROW
    WHEN ((CASE WHEN OLD.journal_retention IS NOT NULL THEN OLD.max_storage END) IS DISTINCT FROM (CASE WHEN NEW.journal_retention IS NOT NULL THEN NEW.max_storage END))
    EXECUTE FUNCTION journal_bounds_changed();
