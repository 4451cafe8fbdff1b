-- +goose Up

-- A tenant. One open account for each MediaAccount; closed ones keep their rows.
CREATE TABLE account (
    id              uuid PRIMARY KEY,
    namespace       text NOT NULL,
    name            text NOT NULL,
    display_name    text NOT NULL,
    owners          text[] NOT NULL,
    max_storage     bigint NOT NULL CHECK (max_storage > 0),
    max_upload_size bigint NOT NULL CHECK (max_upload_size > 0),
    bucket          text NOT NULL,
    suspended       boolean NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    closed_at       timestamptz
);
CREATE UNIQUE INDEX account_open_name ON account (namespace, name) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX account_open_bucket ON account (bucket) WHERE closed_at IS NULL;

-- The bytes an account holds: those of its items plus those promised to running
-- uploads. Kept apart from account because every upload writes it and nobody is
-- notified of it.
CREATE TABLE account_hold (
    account_id uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    bytes      bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0)
);

CREATE TABLE app (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    closed_at  timestamptz,
    UNIQUE (account_id, name)
);

-- hash is the SHA-256 of the key; the key itself is in its Secret only.
CREATE TABLE api_key (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    app_id     uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    hash       bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    generation bigint NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
CREATE INDEX api_key_app ON api_key (app_id, created_at DESC);

-- Written at a slow pace by every replica; apart from api_key so that it notifies nobody.
CREATE TABLE api_key_use (
    key_id       uuid PRIMARY KEY REFERENCES api_key (id) ON DELETE CASCADE,
    last_used_at timestamptz NOT NULL
);

-- A null column is not set in this layer.
CREATE TABLE settings_pin (
    account_id          uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    pinned_by           text NOT NULL,
    use_webp            boolean,
    webp_output_quality integer CHECK (webp_output_quality BETWEEN 0 AND 100),
    thumbnail_width     integer CHECK (thumbnail_width BETWEEN 1 AND 4096),
    thumbnail_height    integer CHECK (thumbnail_height BETWEEN 1 AND 4096)
);
CREATE TABLE settings_choice (
    account_id          uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    use_webp            boolean,
    webp_output_quality integer CHECK (webp_output_quality BETWEEN 0 AND 100),
    thumbnail_width     integer CHECK (thumbnail_width BETWEEN 1 AND 4096),
    thumbnail_height    integer CHECK (thumbnail_height BETWEEN 1 AND 4096)
);

-- Intent before bytes: an upload's row is there before its first byte reaches S3,
-- and goes in the transaction that makes its item. A row past its lease is an
-- upload whose runtime died; the purge removes what it left in S3.
CREATE TABLE upload (
    item_id    uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    app_id     uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    reserved   bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    lease_ends timestamptz NOT NULL
);
CREATE INDEX upload_lease ON upload (lease_ends);
CREATE INDEX upload_account ON upload (account_id);

-- objects is a JSON array of {variant, key, bytes, mimeType, sha256};
-- bytes is the sum of theirs. A draft has no sealed_at.
CREATE TABLE item (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    app_id      uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    file_name   text NOT NULL,
    access      text NOT NULL CHECK (access IN ('public', 'private')),
    caption     text NOT NULL,
    group_label text NOT NULL,
    objects     jsonb NOT NULL,
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    created_at  timestamptz NOT NULL,
    sealed_at   timestamptz
);
-- Lists are newest first: ids are UUIDv7, so their order is that of creation.
CREATE INDEX item_list ON item (app_id, id DESC) WHERE sealed_at IS NOT NULL;
CREATE INDEX item_list_access ON item (app_id, access, id DESC) WHERE sealed_at IS NOT NULL;
CREATE INDEX item_list_group ON item (app_id, group_label, id DESC) WHERE sealed_at IS NOT NULL AND group_label <> '';
CREATE INDEX item_draft_age ON item (created_at) WHERE sealed_at IS NULL;
CREATE INDEX item_draft_account ON item (account_id) WHERE sealed_at IS NULL;
CREATE INDEX item_account ON item (account_id);

-- Totals of sealed items, in slots so that concurrent seals of one app seldom wait
-- for each other's commit. A slot alone means nothing (a seal and the delete of the
-- same item can hit two slots, and a slot can be negative); the sum is exact.
CREATE TABLE app_total (
    app_id        uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    slot          smallint NOT NULL,
    account_id    uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    public_items  bigint NOT NULL DEFAULT 0,
    private_items bigint NOT NULL DEFAULT 0,
    bytes         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (app_id, slot)
);
CREATE INDEX app_total_account ON app_total (account_id);

CREATE TABLE group_total (
    app_id        uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    group_label   text NOT NULL,
    slot          smallint NOT NULL,
    public_items  bigint NOT NULL DEFAULT 0,
    private_items bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (app_id, group_label, slot)
);

-- Rows before bytes on the way out: what is in here is to be removed from S3, and
-- is tried until it is gone. unfinished also aborts multipart uploads of the keys.
-- No reference to account: objects outlive the rows that named them.
CREATE TABLE object_removal (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id uuid NOT NULL,
    bucket     text NOT NULL,
    keys       text[] NOT NULL,
    unfinished boolean NOT NULL,
    attempts   integer NOT NULL DEFAULT 0,
    not_before timestamptz NOT NULL DEFAULT now(),
    last_error text NOT NULL DEFAULT ''
);
CREATE INDEX object_removal_due ON object_removal (not_before);

-- What replicas cache of a tenant (its key, limits, suspension) is dropped when any
-- of it changes. A trigger, so that no statement can forget it.
-- +goose StatementBegin
CREATE FUNCTION notify_account() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed uuid;
BEGIN
    IF TG_TABLE_NAME = 'account' THEN
        changed := CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END;
    ELSE
        changed := CASE WHEN TG_OP = 'DELETE' THEN OLD.account_id ELSE NEW.account_id END;
    END IF;
    PERFORM pg_notify('mediastack_account', changed::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_notify AFTER INSERT OR UPDATE OR DELETE ON account FOR EACH ROW EXECUTE FUNCTION notify_account();
CREATE TRIGGER app_notify AFTER INSERT OR UPDATE OR DELETE ON app FOR EACH ROW EXECUTE FUNCTION notify_account();
CREATE TRIGGER api_key_notify AFTER INSERT OR UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION notify_account();

-- +goose Down
DROP TABLE object_removal, group_total, app_total, item, upload, settings_choice, settings_pin,
    api_key_use, api_key, app, account_hold, account;
DROP FUNCTION notify_account();
