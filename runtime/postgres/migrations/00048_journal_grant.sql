-- The authorizations of applications, and their ends, are events of the journal (docs/decisions/0048). They are triggers so that no
-- statement can omit them: authorizations also end with owners, keys and accounts.

-- +goose Up
-- Returns an actor that is a person, or an application of one, as account.Actor.Text does. The address is masked as by account.MaskEmail.
-- +goose StatementBegin
CREATE FUNCTION person_actor(kind text, id text, name text, email text, whole boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    masked text := CASE WHEN whole THEN email WHEN strpos(email, '@') > 1 THEN left(email, 1) || '***' || substr(email, strpos(email, '@')) END;
BEGIN
    RETURN json_strip_nulls(json_build_object('kind', kind, 'id', nullif(id, ''), 'name', nullif(name, ''), 'email', nullif(masked, '')))::text;
END
$$;
-- +goose StatementEnd

-- The argument is the type of the event. Who ends an authorization is known by the reason.
-- +goose StatementBegin
CREATE FUNCTION journal_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    whole boolean;
    kind text := CASE WHEN TG_OP = 'INSERT' THEN 'login' ELSE CASE NEW.revocation_reason
        WHEN 'revoked by the user' THEN 'page' WHEN 'revoked by the client' THEN 'login'
        WHEN 'owner removed' THEN 'operator' WHEN 'account suspended' THEN 'operator' WHEN 'account closed' THEN 'operator' WHEN 'API key expired' THEN 'operator'
        ELSE 'service' END END;
BEGIN
    SELECT account.journal_full_addresses INTO whole FROM account
    WHERE account.id = NEW.account_id AND account.journal_retention IS NOT NULL AND account.erasing_at IS NULL;
    IF FOUND THEN
        INSERT INTO journal (account_id, type, actor) VALUES (NEW.account_id, TG_ARGV[0], person_actor(kind, NEW.id::text, NEW.client_name, NEW.email, whole));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER oauth_grant_journal_authorized AFTER INSERT ON oauth_grant FOR EACH ROW EXECUTE FUNCTION journal_grant('application.authorized');
CREATE TRIGGER oauth_grant_journal_revoked AFTER UPDATE OF revoked_at ON oauth_grant FOR EACH ROW
    WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION journal_grant('application.revoked');
