-- New API keys, and the ends of API keys, are events of the journal (docs/decisions/0048). They are triggers so that no statement can omit
-- them, and so that an operator of the version before writes them, too.

-- +goose Up
-- The argument is the type of the event.
-- +goose StatementBegin
CREATE FUNCTION journal_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM write_operator_event(NEW.account_id, NEW.app_id, TG_ARGV[0], '{}');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER api_key_journal_issued AFTER INSERT ON api_key FOR EACH ROW EXECUTE FUNCTION journal_key('key.issued');
CREATE TRIGGER api_key_journal_reopened AFTER UPDATE OF expires_at ON api_key FOR EACH ROW
    WHEN (OLD.expires_at IS NOT NULL AND NEW.expires_at IS NULL) EXECUTE FUNCTION journal_key('key.issued');
-- A key that has an end already only ends earlier.
CREATE TRIGGER api_key_journal_ended AFTER UPDATE OF expires_at ON api_key FOR EACH ROW
    WHEN (OLD.expires_at IS NULL AND NEW.expires_at IS NOT NULL) EXECUTE FUNCTION journal_key('key.ended');
