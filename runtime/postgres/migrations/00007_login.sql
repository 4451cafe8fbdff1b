-- +goose Up

-- The people who may log in are found by their address.
CREATE INDEX account_owners ON account USING gin (owners) WHERE closed_at IS NULL;

-- An application that registered itself (RFC 7591). Its id is made from what it said,
-- so that the same words give the same row.
CREATE TABLE login_client (
    id            text PRIMARY KEY,
    name          text NOT NULL,
    website       text NOT NULL,
    redirect_uris text[] NOT NULL,
    created_at    timestamptz NOT NULL,
    -- used_at is when it last sent somebody to log in.
    used_at       timestamptz
);
CREATE INDEX login_client_unused ON login_client (created_at) WHERE used_at IS NULL;

-- A browser on its way through the pages. browser is the SHA-256 of its cookie, code_mac
-- the code's MAC. ask is what an application asks for; null = the person came alone, to
-- see the connections.
CREATE TABLE login_request (
    id              uuid PRIMARY KEY,
    browser         bytea NOT NULL CHECK (length(browser) = 32),
    ask             jsonb,
    address         text NOT NULL DEFAULT '',
    code_mac        bytea,
    code_sent_at    timestamptz,
    code_expires_at timestamptz,
    tries           integer NOT NULL DEFAULT 0,
    logged_in_at    timestamptz,
    ended_at        timestamptz,
    expires_at      timestamptz NOT NULL
);
CREATE INDEX login_request_expiry ON login_request (expires_at);
CREATE INDEX login_request_client ON login_request ((ask ->> 'clientId'));

-- What a person allowed an application: the family of all its tokens. It stands for the
-- Default API Key of the account, and ends with it.
CREATE TABLE login_grant (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    key_id       uuid NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
    address      text NOT NULL,
    client_id    text NOT NULL,
    client_name  text NOT NULL,
    redirect_uri text NOT NULL,
    scopes       text[] NOT NULL,
    resource     text NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    revoked_why  text NOT NULL DEFAULT ''
);
CREATE INDEX login_grant_account ON login_grant (account_id);
CREATE INDEX login_grant_key ON login_grant (key_id);
CREATE INDEX login_grant_client ON login_grant (client_id);
CREATE INDEX login_grant_address ON login_grant (address) WHERE revoked_at IS NULL;

-- Hashes are SHA-256 of secrets of 256 bits.
CREATE TABLE login_code (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    grant_id   uuid NOT NULL REFERENCES login_grant (id) ON DELETE CASCADE,
    challenge  text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX login_code_grant ON login_code (grant_id);

-- rotated_at and pairs are of refresh tokens: when the first pair was given for it, and
-- how many were.
CREATE TABLE login_token (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    grant_id   uuid NOT NULL REFERENCES login_grant (id) ON DELETE CASCADE,
    refresh    boolean NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    rotated_at timestamptz,
    pairs      integer NOT NULL DEFAULT 0
);
CREATE INDEX login_token_grant ON login_token (grant_id);
CREATE INDEX login_token_expiry ON login_token (expires_at);

-- When something that is limited was done, by kind and by the MAC of who did it.
CREATE TABLE login_attempt (
    kind    text NOT NULL,
    subject bytea NOT NULL,
    times   timestamptz[] NOT NULL,
    last    timestamptz NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX login_attempt_last ON login_attempt (last);

-- Mail that waits to be sent; sealed holds address and code, encrypted.
CREATE TABLE letter (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sealed     bytea NOT NULL,
    attempts   integer NOT NULL DEFAULT 0,
    not_before timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX letter_due ON letter (not_before);

-- Replicas remember tokens as they do keys.
CREATE TRIGGER login_grant_notify AFTER UPDATE OF revoked_at, key_id OR DELETE ON login_grant
    FOR EACH ROW EXECUTE FUNCTION notify_account();

-- Who is no longer an owner is out for good: an owner that comes back, or an account that
-- is opened again, does not bring old sessions to life. A trigger, so that no statement
-- can forget it.
-- +goose StatementBegin
CREATE FUNCTION end_logins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- In one order everywhere, so that two who end several do not wait for each other.
    PERFORM id FROM login_grant WHERE account_id = NEW.id AND revoked_at IS NULL ORDER BY id FOR UPDATE;
    UPDATE login_grant SET revoked_at = now(),
        revoked_why = CASE WHEN NEW.closed_at IS NOT NULL THEN 'closed' WHEN NEW.suspended THEN 'suspended' ELSE 'not an owner' END
    WHERE account_id = NEW.id AND revoked_at IS NULL
      AND (NEW.closed_at IS NOT NULL OR NEW.suspended OR address <> ALL (NEW.owners));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_end_logins AFTER UPDATE OF closed_at, suspended, owners ON account
    FOR EACH ROW EXECUTE FUNCTION end_logins();

-- A key that ends at once takes the sessions along that stand for it. One that ends later
-- can still be left for the next (the purge writes down those that stayed).
-- +goose StatementBegin
CREATE FUNCTION end_logins_of_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM id FROM login_grant WHERE key_id = NEW.id AND revoked_at IS NULL ORDER BY id FOR UPDATE;
    UPDATE login_grant SET revoked_at = now(), revoked_why = 'its key ended' WHERE key_id = NEW.id AND revoked_at IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER api_key_end_logins AFTER UPDATE OF expires_at ON api_key
    FOR EACH ROW WHEN (NEW.expires_at <= now()) EXECUTE FUNCTION end_logins_of_key();

-- +goose Down
DROP TRIGGER api_key_end_logins ON api_key;
DROP FUNCTION end_logins_of_key();
DROP TRIGGER account_end_logins ON account;
DROP FUNCTION end_logins();
DROP TABLE letter, login_attempt, login_token, login_code, login_grant, login_request, login_client;
DROP INDEX account_owners;
