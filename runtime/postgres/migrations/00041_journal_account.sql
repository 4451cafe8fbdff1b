-- The suspension of an account and its end are events of its journal (docs/decisions/0048).

-- +goose Up
-- Writes an event of a change that the operator makes, if the account has a journal. Events of the account have no app. An account that is
-- erased has no more events: they would be left.
-- +goose StatementBegin
CREATE FUNCTION write_operator_event(changed_account uuid, changed_app uuid, event text, changed text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM account WHERE account.id = changed_account AND account.journal_retention IS NOT NULL AND account.erasing_at IS NULL) THEN
        INSERT INTO journal (account_id, app_id, type, actor, fields) VALUES (changed_account, changed_app, event, '{"kind":"operator"}', changed);
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION journal_suspension() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM write_operator_event(NEW.id, NULL, CASE WHEN NEW.suspended THEN 'account.suspended' ELSE 'account.resumed' END, '{}');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_journal AFTER UPDATE OF suspended ON account FOR EACH ROW
    WHEN (NEW.suspended <> OLD.suspended AND NEW.journal_retention IS NOT NULL) EXECUTE FUNCTION journal_suspension();
