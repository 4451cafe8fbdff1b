-- The schema before the first release, in one file. From the first release on, a migration
-- is never edited: a schema change is a new file.
--
-- Versions 1 to 9 belong to migrations that were never released. A program rejects a
-- database in which one of them was applied.

-- +goose Up

-- The installation: one row, which the migration inserts. The same identity is in a ConfigMap
-- beside the operator and in the marker of every bucket (docs/decisions/0014).
CREATE TABLE installation (
    singleton   boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    id          uuid NOT NULL,
    -- cell is the number of the installation among those that serve one base URL. Ids and
    -- credentials contain it, so that it never changes (docs/decisions/0023).
    cell        integer NOT NULL CHECK (cell BETWEEN 0 AND 4095),
    -- cluster_uid is the UID of the namespace kube-system of the cluster whose operator writes
    -- to this database; empty until an operator is bound.
    cluster_uid text NOT NULL DEFAULT '',
    -- epoch increases with every take-over and every resume after a restore.
    epoch       bigint NOT NULL DEFAULT 1,
    -- leader_term increases when a replica of the operator becomes the leader. Writes of the
    -- former leader are rejected, even if it does not know yet that it was replaced.
    leader_term bigint NOT NULL DEFAULT 0,
    -- The heartbeat increases while any process runs. token is that of the last one. Both are
    -- copied to the markers of some buckets: a marker that is ahead, or has another token,
    -- shows that this database was restored or cloned.
    heartbeat    bigint NOT NULL DEFAULT 0,
    token        uuid NOT NULL,
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    -- server identifies the server and the database: a dump that is restored elsewhere has
    -- another one. Empty until it is recorded.
    server      text NOT NULL DEFAULT '',
    -- hold_reason says why nothing may be removed from the object store; empty if it may.
    hold_reason text NOT NULL DEFAULT '',
    held_at     timestamptz,
    -- resumed_at is when a restore was last confirmed. Drafts and uploads of before then have
    -- their full time again, since their seals may be lost.
    resumed_at  timestamptz,
    -- taken_over_at is when another cluster took the installation over: accounts whose
    -- MediaAccount it does not have yet are not orphans for some time.
    taken_over_at timestamptz,
    -- proof_key is the key of the MACs in the Secrets of API keys.
    proof_key   bytea NOT NULL CHECK (length(proof_key) = 32)
);
INSERT INTO installation (id, cell, token, proof_key)
VALUES (gen_random_uuid(), coalesce(nullif(current_setting('mediastack.cell', true), ''), '0')::integer, gen_random_uuid(), sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The processes of the runtime that serve, and those that died and left uploads.
CREATE TABLE runtime_instance (
    id          uuid PRIMARY KEY,
    version     text NOT NULL,
    started_at  timestamptz NOT NULL,
    -- alive_since is when the process began to renew its lease without a gap.
    alive_since timestamptz NOT NULL,
    -- lease_ends is when the process is declared dead, unless it renews the lease before.
    lease_ends  timestamptz NOT NULL
);

-- The caches of items: a process serves a file without a query while its row exists and is not
-- ended. A process that changes what is cached waits until all of them have acknowledged the change,
-- or ends the rows of those that do not, and waits until their leases are over (docs/decisions/0022).
CREATE TABLE item_cache (
    id       uuid PRIMARY KEY,
    -- lease_ms is how long the process serves after it last saw its row.
    lease_ms bigint NOT NULL CHECK (lease_ms > 0),
    -- ended: the lease cannot be renewed. The row stays until the lease is over, so that other
    -- processes wait for it, too.
    ended    boolean NOT NULL DEFAULT false
);

-- What the purge did: one row, which the migration inserts. Its process ends, so that it cannot be
-- scraped; a replica of the runtime exports the row.
CREATE TABLE purge_run (
    singleton       boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    -- The last run; null before the first one.
    started_at      timestamptz,
    ended_at        timestamptz,
    needs_attention boolean NOT NULL DEFAULT false,
    buckets_skipped bigint NOT NULL DEFAULT 0,
    -- succeeded_at is the end of the last run that completed.
    succeeded_at    timestamptz,
    -- The sums of all runs.
    runs_completed  bigint NOT NULL DEFAULT 0,
    runs_failed     bigint NOT NULL DEFAULT 0,
    runs_held       bigint NOT NULL DEFAULT 0,
    drafts          bigint NOT NULL DEFAULT 0,
    uploads         bigint NOT NULL DEFAULT 0,
    removals        bigint NOT NULL DEFAULT 0,
    removals_failed bigint NOT NULL DEFAULT 0,
    oauth_rows      bigint NOT NULL DEFAULT 0,
    api_keys        bigint NOT NULL DEFAULT 0
);
INSERT INTO purge_run DEFAULT VALUES;

-- A tenant. Each MediaAccount has one open account; a closed account keeps its row until
-- the account is erased.
CREATE TABLE account (
    id              uuid PRIMARY KEY,
    namespace       text NOT NULL,
    name            text NOT NULL,
    -- The UIDs of the namespace and of the MediaAccount that the account is bound to. An empty
    -- namespace_uid binds to the next MediaAccount of that namespace and name: only a take-over
    -- clears it.
    namespace_uid   text NOT NULL,
    object_uid      text NOT NULL,
    display_name    text NOT NULL,
    owners          text[] NOT NULL,
    max_storage     bigint NOT NULL CHECK (max_storage > 0),
    max_upload_size bigint NOT NULL CHECK (max_upload_size > 0),
    bucket          text NOT NULL,
    -- bucket_owned: the ownership marker in the bucket names this account. The operator sets
    -- it when it reads the marker.
    bucket_owned    boolean NOT NULL DEFAULT false,
    -- bucket_claimed: the operator wrote the marker once. It is never reset: a bucket that is
    -- missing then was lost, and one without a marker is this account's.
    bucket_claimed  boolean NOT NULL DEFAULT false,
    suspended       boolean NOT NULL,
    -- The tool policy of MCP clients (spec.mcp). A null list allows every tool, an empty
    -- list none.
    mcp_read_only   boolean NOT NULL DEFAULT false,
    mcp_tools       text[],
    -- cors_origins (spec.cors.origins): null = those of the installation, empty = none.
    cors_origins    text[],
    created_at      timestamptz NOT NULL DEFAULT now(),
    closed_at       timestamptz,
    -- erase_after is when the media of a closed account is deleted; null = never.
    erase_after     timestamptz,
    -- erasing_at is when the deletion of the media began. The account cannot be opened again.
    erasing_at      timestamptz,
    -- bucket_removed_at is when the deletion removed the bucket, or found that it is not the
    -- account's. Rows are deleted after that only, so that a crash never forgets a bucket.
    bucket_removed_at timestamptz,
    CHECK (closed_at IS NOT NULL OR (erase_after IS NULL AND erasing_at IS NULL)),
    CHECK (erasing_at IS NOT NULL OR bucket_removed_at IS NULL)
);
CREATE INDEX account_closed_name ON account (namespace, name, closed_at DESC) WHERE closed_at IS NOT NULL;
CREATE INDEX account_closed ON account (id) WHERE closed_at IS NOT NULL;
CREATE UNIQUE INDEX account_open_name ON account (namespace, name) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX account_open_bucket ON account (bucket) WHERE closed_at IS NULL;
-- The runtimes answer preflights for the origins of all accounts.
CREATE INDEX account_cors ON account (id) WHERE closed_at IS NULL AND cors_origins IS NOT NULL;
-- A login looks accounts up by the owner's e-mail address.
CREATE INDEX account_owners ON account USING gin (owners) WHERE closed_at IS NULL;

-- The storage quota that is in use: the bytes of the account's items plus those reserved for
-- running uploads. It is apart from account because every upload writes it, and a write must
-- not notify replicas of an account change.
CREATE TABLE account_usage (
    account_id uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    bytes      bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0)
);

CREATE TABLE app (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    closed_at  timestamptz,
    -- key_sequence is the sequence number of the newest key of the app.
    key_sequence bigint NOT NULL DEFAULT 0,
    UNIQUE (account_id, name),
    -- For the foreign keys of upload and item: the app of an item is an app of the item's
    -- account. One foreign key checks both.
    UNIQUE (id, account_id)
);

-- hash is the SHA-256 of the key; the key itself is stored in its Secret only.
CREATE TABLE api_key (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    app_id     uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    hash       bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    generation bigint NOT NULL,
    -- sequence orders the keys of an app, whatever the clocks say.
    sequence   bigint NOT NULL,
    -- object_uid is the UID of the MediaAccount for which the key was issued.
    object_uid text NOT NULL,
    -- overlap is how many microseconds the older keys stay valid after the delivery. It is
    -- stored with the key, so that a crash before the delivery does not lose it.
    overlap    bigint NOT NULL CHECK (overlap >= 0),
    -- replaces_secret: the operator replaces an immutable Secret to write this key. That the
    -- Secret is missing is no revocation then.
    replaces_secret boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- delivered_at is when its Secret was written; null while the key is pending. The older keys
    -- of the app end only after that.
    delivered_at timestamptz,
    expires_at timestamptz,
    -- closed: the key was the current one when its account was closed, which ended it. It is
    -- valid again if the account is opened again and a Secret with a proof holds it. The
    -- delivery of a newer key clears it.
    closed     boolean NOT NULL DEFAULT false,
    UNIQUE (app_id, sequence)
);
CREATE UNIQUE INDEX api_key_pending ON api_key (app_id) WHERE delivered_at IS NULL AND expires_at IS NULL;
CREATE INDEX api_key_account ON api_key (account_id);
CREATE INDEX api_key_expiry ON api_key (expires_at) WHERE expires_at IS NOT NULL;

-- Every replica writes it periodically. It is apart from api_key so that a write notifies no
-- replica.
CREATE TABLE api_key_use (
    key_id       uuid PRIMARY KEY REFERENCES api_key (id) ON DELETE CASCADE,
    last_used_at timestamptz NOT NULL
);

-- The layers of the image settings. fields is a JSON object with the fields that the layer
-- sets, by their names in the API. Names and bounds are those of package settings, so that a
-- new setting needs no migration; a program ignores fields of a later version.
CREATE TABLE settings_pin (
    account_id uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    pinned_by  text NOT NULL, -- namespace/name of the MediaSettings
    fields     jsonb NOT NULL CHECK (jsonb_typeof(fields) = 'object'
        AND NOT jsonb_path_exists(fields, 'strict $.* ? (@.type() != "boolean" && @.type() != "number")')),
    object_uid text NOT NULL CHECK (object_uid <> '') -- the UID of the MediaSettings
);
CREATE INDEX settings_pin_object ON settings_pin (object_uid);
CREATE TABLE settings_tenant (
    account_id uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    fields     jsonb NOT NULL CHECK (jsonb_typeof(fields) = 'object'
        AND NOT jsonb_path_exists(fields, 'strict $.* ? (@.type() != "boolean" && @.type() != "number")'))
);

-- The intent of an upload: its row is committed before its first byte reaches S3, and is
-- deleted in the transaction that inserts its item. A row whose lease has ended belongs to an
-- upload that was abandoned; the purge removes what it left in S3.
CREATE TABLE upload (
    item_id    uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    app_id     uuid NOT NULL,
    reserved   bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    lease_ends timestamptz NOT NULL,
    -- instance_id is the process that receives the upload: it ends with it. Null for an upload that
    -- any process can continue. There is no foreign key: it would be checked for each upload.
    instance_id uuid,
    opened_at  timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE
);
CREATE INDEX upload_lease ON upload (lease_ends);
CREATE INDEX upload_account ON upload (account_id);

-- The state of a resumable upload, which any replica can resume. While the upload runs, it
-- also has a row in upload with its reservation and lease; after the commit it has an item.
-- The row stays until it expires, so that a client that lost the last response can still ask
-- for the result.
CREATE TABLE resumable_upload (
    item_id          uuid PRIMARY KEY,
    account_id       uuid NOT NULL,
    app_id           uuid NOT NULL,
    length           bigint CHECK (length >= 0), -- null: the client has not declared it yet
    file_name        text NOT NULL,
    declared_type    text NOT NULL,
    access           text NOT NULL CHECK (access IN ('public', 'private')),
    caption          text NOT NULL,
    group_label      text NOT NULL,
    -- The Upload-Metadata header as the client sent it; HEAD returns it unchanged.
    metadata         text NOT NULL DEFAULT '' CHECK (octet_length(metadata) <= 8192),
    received         bigint NOT NULL DEFAULT 0 CHECK (received >= 0 AND (length IS NULL OR received <= length)),
    digest           bytea NOT NULL DEFAULT '',
    multipart_id     text NOT NULL DEFAULT '',
    parts            jsonb NOT NULL DEFAULT '[]',
    single_put       boolean NOT NULL DEFAULT false,
    incomplete_part  text NOT NULL DEFAULT '',
    incomplete_bytes bigint NOT NULL DEFAULT 0,
    incomplete_hash  bytea NOT NULL DEFAULT '',
    mime_type        text NOT NULL DEFAULT '',
    expires_at       timestamptz NOT NULL,
    FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE
);
CREATE INDEX resumable_upload_expiry ON resumable_upload (expires_at);
CREATE INDEX resumable_upload_account ON resumable_upload (account_id);

-- objects is a JSON array of {variant, key, bytes, mimeType, sha256};
-- bytes is the sum of theirs. A draft has no sealed_at.
--
-- Ids are unique, but no index is in the order of ids alone: the planner would use it for a list of
-- one tenant, and read the rows of all others. The order is that of an account or an app.
CREATE TABLE item (
    id          uuid NOT NULL,
    account_id  uuid NOT NULL,
    app_id      uuid NOT NULL,
    file_name   text NOT NULL,
    access      text NOT NULL CHECK (access IN ('public', 'private')),
    caption     text NOT NULL,
    group_label text NOT NULL,
    objects     jsonb NOT NULL,
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    created_at  timestamptz NOT NULL,
    sealed_at   timestamptz,
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE
);
CREATE INDEX item_id ON item USING hash (id);
-- Lists are newest first: ids are UUIDv7, so their order is that of creation. A list reads its index
-- backwards: new items are at the end of their app, access or group, which keeps the pages full.
CREATE INDEX item_list ON item (app_id, id) WHERE sealed_at IS NOT NULL;
CREATE INDEX item_list_access ON item (app_id, access, id) WHERE sealed_at IS NOT NULL;
CREATE INDEX item_list_group ON item (app_id, group_label, id) WHERE sealed_at IS NOT NULL AND group_label <> '';
-- An expression, so that the order by it pins a list to this index.
CREATE INDEX item_list_group_access ON item (app_id, (access || '/' || group_label), id) WHERE sealed_at IS NOT NULL AND group_label <> '';
CREATE INDEX item_draft_age ON item (created_at) WHERE sealed_at IS NULL;
CREATE INDEX item_draft_account ON item (account_id) WHERE sealed_at IS NULL;

-- Totals of sealed items, spread over slots so that concurrent seals of one app seldom wait
-- for each other's commit. A single slot has no meaning (a seal and the deletion of the same
-- item can hit two slots, and a slot can be negative); the sum of all slots is exact.
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

-- The pagination index: the number of sealed items of an app, or of a group of it, in each range of
-- ids, so that a page at a large offset is found without scanning all items before it. A block
-- reaches from its first_id to that of the next block; the first block begins at the zero UUID. The
-- list of the whole app has the label ''. A small list has no blocks.
CREATE TABLE item_page_block (
    app_id       uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    group_label  text NOT NULL,
    first_id     uuid NOT NULL,
    items        integer NOT NULL CHECK (items >= 0),
    public_items integer NOT NULL CHECK (public_items BETWEEN 0 AND items),
    PRIMARY KEY (app_id, group_label, first_id) INCLUDE (items, public_items)
);

-- The delta log of the pagination index: items that were sealed (1) or deleted (-1) since the
-- blocks were counted, with their group. Requests only insert, so that they never wait for each
-- other; the rows are compacted into the blocks later.
CREATE TABLE item_page_delta (
    app_id      uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    id          uuid NOT NULL,
    group_label text NOT NULL,
    delta       smallint NOT NULL,
    public      boolean NOT NULL
);
CREATE INDEX item_page_delta_app ON item_page_delta (app_id, id);

-- Deletes the rows before the objects: the keys in here are removed from S3, and the removal
-- is retried until it succeeds. abort_multipart also aborts multipart uploads of the keys.
-- There is no reference to account: objects outlive the rows that named them.
CREATE TABLE object_removal (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id      uuid NOT NULL,
    bucket          text NOT NULL,
    keys            text[] NOT NULL,
    abort_multipart boolean NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    not_before      timestamptz NOT NULL,
    last_error      text NOT NULL DEFAULT '',
    -- request identifies the delete that queued it: one whose answer was lost finds it again.
    request         uuid
);
CREATE INDEX object_removal_due ON object_removal (not_before);
CREATE INDEX object_removal_account ON object_removal (account_id, id);

-- A dynamically registered OAuth client (RFC 7591). The id is derived from the client's
-- metadata, so that equal metadata yields the same row.
CREATE TABLE oauth_client (
    id            text PRIMARY KEY,
    name          text NOT NULL,
    website       text NOT NULL,
    redirect_uris text[] NOT NULL,
    created_at    timestamptz NOT NULL,
    -- last_used_at is the time of its latest authorization request.
    last_used_at  timestamptz
);
CREATE INDEX oauth_client_unused ON oauth_client (created_at) WHERE last_used_at IS NULL;

-- The login session of a browser. cookie_hash is the SHA-256 of its cookie, code_mac the MAC
-- of the login code that was sent by e-mail. authorization_request is null when the user
-- opened the list of connections without a request of a client.
CREATE TABLE login_session (
    id                    uuid PRIMARY KEY,
    cookie_hash           bytea NOT NULL CHECK (length(cookie_hash) = 32),
    authorization_request jsonb,
    email                 text NOT NULL DEFAULT '',
    code_mac              bytea,
    code_sent_at          timestamptz,
    code_expires_at       timestamptz,
    attempts              integer NOT NULL DEFAULT 0,
    logged_in_at          timestamptz,
    ended_at              timestamptz,
    expires_at            timestamptz NOT NULL
);
CREATE INDEX login_session_expiry ON login_session (expires_at);
CREATE INDEX login_session_client ON login_session ((authorization_request ->> 'clientId'));

-- The consent of a user to a client, to which all its tokens belong. The grant has the rights
-- of the account's Default API Key, and ends with it.
CREATE TABLE oauth_grant (
    id                uuid PRIMARY KEY,
    account_id        uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    key_id            uuid NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
    email             text NOT NULL,
    client_id         text NOT NULL,
    client_name       text NOT NULL,
    redirect_uri      text NOT NULL,
    scopes            text[] NOT NULL,
    resource          text NOT NULL,
    created_at        timestamptz NOT NULL,
    last_used_at      timestamptz,
    revoked_at        timestamptz,
    revocation_reason text NOT NULL DEFAULT ''
);
CREATE INDEX oauth_grant_account ON oauth_grant (account_id);
CREATE INDEX oauth_grant_key ON oauth_grant (key_id);
CREATE INDEX oauth_grant_client ON oauth_grant (client_id);
CREATE INDEX oauth_grant_email ON oauth_grant (email) WHERE revoked_at IS NULL;

-- Authorization codes. Hashes of codes and tokens are SHA-256 of secrets of 256 bits.
CREATE TABLE oauth_code (
    hash           bytea PRIMARY KEY CHECK (length(hash) = 32),
    grant_id       uuid NOT NULL REFERENCES oauth_grant (id) ON DELETE CASCADE,
    code_challenge text NOT NULL,
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz
);
CREATE INDEX oauth_code_grant ON oauth_code (grant_id);

-- Access and refresh tokens. rotated_at and rotations are of refresh tokens: the time of the
-- first rotation, and how many token pairs were issued for it.
CREATE TABLE oauth_token (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    grant_id   uuid NOT NULL REFERENCES oauth_grant (id) ON DELETE CASCADE,
    refresh    boolean NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    rotated_at timestamptz,
    rotations  integer NOT NULL DEFAULT 0
);
CREATE INDEX oauth_token_grant ON oauth_token (grant_id);
CREATE INDEX oauth_token_expiry ON oauth_token (expires_at);

-- The times of the events that count against a rate limit, by the kind of the limit and the
-- MAC of its subject (a client IP, an e-mail address).
CREATE TABLE rate_limit_event (
    kind        text NOT NULL,
    subject_mac bytea NOT NULL,
    times       timestamptz[] NOT NULL,
    last_time   timestamptz NOT NULL,
    PRIMARY KEY (kind, subject_mac)
);
CREATE INDEX rate_limit_event_last ON rate_limit_event (last_time);

-- E-mail that waits to be sent; encrypted holds the recipient and the login code.
CREATE TABLE email_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    encrypted  bytea NOT NULL,
    attempts   integer NOT NULL DEFAULT 0,
    not_before timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX email_outbox_due ON email_outbox (not_before);

-- What the operator acts on, for each open account: a version changes with every change of a row that
-- the status of the MediaAccount (version) or the MediaSettings (settings_version) follows from. One
-- statement over all accounts compares them with what the operator last saw.
CREATE VIEW account_version AS
SELECT account.id, account.namespace, account.name,
    (hashtextextended(account.xmin::text, 0)
        # (SELECT coalesce(bit_xor(hashtextextended(app.xmin::text || app.id::text, 1)), 0) FROM app WHERE app.account_id = account.id)
        # (SELECT coalesce(bit_xor(hashtextextended(api_key.xmin::text || api_key.id::text, 2)), 0) FROM api_key WHERE api_key.account_id = account.id))::bigint AS version,
    (hashtextextended(account.object_uid, 5)
        # hashtextextended(coalesce((SELECT settings_pin.xmin::text FROM settings_pin WHERE settings_pin.account_id = account.id), ''), 3)
        # hashtextextended(coalesce((SELECT settings_tenant.xmin::text FROM settings_tenant WHERE settings_tenant.account_id = account.id), ''), 4))::bigint AS settings_version
FROM account WHERE account.closed_at IS NULL;

-- What each open account holds, from counters: no item is read. Drafts are what remains of the used
-- bytes, so that one snapshot adds up.
CREATE VIEW account_holding AS
SELECT account.id, account.namespace, account.name, used.bytes AS used,
    sealed.items AS sealed_items, sealed.bytes AS sealed_bytes, running.reserved,
    greatest(used.bytes - sealed.bytes - running.reserved, 0)::bigint AS draft_bytes,
    (SELECT coalesce(max(api_key_use.last_used_at), 'epoch') FROM api_key JOIN api_key_use ON api_key_use.key_id = api_key.id WHERE api_key.account_id = account.id)::timestamptz AS last_used_at
FROM account
CROSS JOIN LATERAL (SELECT coalesce(max(account_usage.bytes), 0)::bigint AS bytes FROM account_usage WHERE account_usage.account_id = account.id) AS used
CROSS JOIN LATERAL (SELECT coalesce(sum(app_total.public_items + app_total.private_items), 0)::bigint AS items, coalesce(sum(app_total.bytes), 0)::bigint AS bytes
    FROM app_total WHERE app_total.account_id = account.id) AS sealed
CROSS JOIN LATERAL (SELECT coalesce(sum(upload.reserved), 0)::bigint AS reserved FROM upload WHERE upload.account_id = account.id) AS running
WHERE account.closed_at IS NULL;

-- Replicas cache accounts, apps, keys and grants. A change notifies them, so that they drop
-- what they cached of the account. It is a trigger so that no statement can omit it.
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
CREATE TRIGGER settings_pin_notify AFTER INSERT OR UPDATE OR DELETE ON settings_pin FOR EACH ROW EXECUTE FUNCTION notify_account();
CREATE TRIGGER settings_tenant_notify AFTER INSERT OR UPDATE OR DELETE ON settings_tenant FOR EACH ROW EXECUTE FUNCTION notify_account();
CREATE TRIGGER api_key_notify AFTER INSERT OR UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION notify_account();
CREATE TRIGGER oauth_grant_notify AFTER UPDATE OF revoked_at, key_id OR DELETE ON oauth_grant
    FOR EACH ROW EXECUTE FUNCTION notify_account();

-- Replicas cache sealed items of open accounts for delivery. A change of one notifies them, in the
-- transaction of the change. Drafts are not cached: their purge notifies nobody.
-- +goose StatementBegin
CREATE FUNCTION notify_deleted_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mediastack_item', 'item ' || deleted.id)
    FROM deleted JOIN account ON account.id = deleted.account_id AND account.closed_at IS NULL
    WHERE deleted.sealed_at IS NOT NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION notify_changed_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mediastack_item', 'item ' || OLD.id);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_delete_notify AFTER DELETE ON item REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION notify_deleted_items();
CREATE TRIGGER item_change_notify AFTER UPDATE ON item FOR EACH ROW WHEN (OLD.sealed_at IS NOT NULL) EXECUTE FUNCTION notify_changed_item();

-- Revokes the grants of a closed or suspended account and of former owners. Adding the owner
-- again or resuming the account does not restore them. It is a trigger so that no statement
-- can omit it.
-- +goose StatementBegin
CREATE FUNCTION revoke_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Locks in one order everywhere, so that transactions that revoke several do not deadlock.
    PERFORM id FROM oauth_grant WHERE account_id = NEW.id AND revoked_at IS NULL ORDER BY id FOR UPDATE;
    UPDATE oauth_grant SET revoked_at = now(),
        revocation_reason = CASE WHEN NEW.closed_at IS NOT NULL THEN 'account closed' WHEN NEW.suspended THEN 'account suspended' ELSE 'owner removed' END
    WHERE account_id = NEW.id AND revoked_at IS NULL
      AND (NEW.closed_at IS NOT NULL OR NEW.suspended OR email <> ALL (NEW.owners));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_revoke_grants AFTER UPDATE OF closed_at, suspended, owners ON account
    FOR EACH ROW EXECUTE FUNCTION revoke_grants();

-- Revokes the grants of a key that expires at once. A grant of a key that expires later can
-- still be rebound to the next key (the purge revokes the grants that were not).
-- +goose StatementBegin
CREATE FUNCTION revoke_grants_of_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM id FROM oauth_grant WHERE key_id = NEW.id AND revoked_at IS NULL ORDER BY id FOR UPDATE;
    UPDATE oauth_grant SET revoked_at = now(), revocation_reason = 'API key expired' WHERE key_id = NEW.id AND revoked_at IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER api_key_revoke_grants AFTER UPDATE OF expires_at ON api_key
    FOR EACH ROW WHEN (NEW.expires_at <= now()) EXECUTE FUNCTION revoke_grants_of_key();

-- Rejects the writes of an operator whose cluster, epoch and leader term are not those of the
-- installation: another cluster took it over, another replica leads, or the database was restored.
-- The command uninstall has no term. Sessions without the parameter mediastack.cluster (the
-- runtime, the purge, a take-over) are not affected. The lock makes a take-over and a new leader
-- wait for the writes before it, so that none is committed after it. It is a trigger so that no
-- statement can omit it.
-- +goose StatementBegin
CREATE FUNCTION reject_other_cluster() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    session text := coalesce(current_setting('mediastack.cluster', true), '');
BEGIN
    IF session = '' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(5268713943);
    IF NOT EXISTS (SELECT FROM installation WHERE cluster_uid <> '' AND hold_reason = '' AND session IN (cluster_uid || '/' || epoch, cluster_uid || '/' || epoch || '/' || leader_term)) THEN
        RAISE EXCEPTION 'the installation does not belong to cluster/epoch/term %, or is on hold', session USING ERRCODE = 'MS001';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_fence BEFORE INSERT OR UPDATE OR DELETE ON account FOR EACH STATEMENT EXECUTE FUNCTION reject_other_cluster();
CREATE TRIGGER app_fence BEFORE INSERT OR UPDATE OR DELETE ON app FOR EACH STATEMENT EXECUTE FUNCTION reject_other_cluster();
CREATE TRIGGER api_key_fence BEFORE INSERT OR UPDATE OR DELETE ON api_key FOR EACH STATEMENT EXECUTE FUNCTION reject_other_cluster();
CREATE TRIGGER settings_pin_fence BEFORE INSERT OR UPDATE OR DELETE ON settings_pin FOR EACH STATEMENT EXECUTE FUNCTION reject_other_cluster();
CREATE TRIGGER item_fence BEFORE DELETE ON item FOR EACH STATEMENT EXECUTE FUNCTION reject_other_cluster();
