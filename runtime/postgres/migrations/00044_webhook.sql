-- Webhooks: where the events of the journal are sent (docs/decisions/0049).

-- +goose Up
-- What MediaWebhooks want. The operator writes it.
CREATE TABLE webhook (
    id            uuid PRIMARY KEY,
    namespace     text NOT NULL,
    name          text NOT NULL,
    object_uid    text NOT NULL UNIQUE,
    -- That of the object.
    generation    bigint NOT NULL,
    -- Null: the events of all accounts.
    account_id    uuid REFERENCES account ON DELETE CASCADE,
    -- Empty: all.
    types         text[] NOT NULL,
    apps          text[] NOT NULL,
    groups        text[] NOT NULL,
    format        text NOT NULL,
    suspended     boolean NOT NULL,
    -- URL and signing secrets, for the private key of public_key.
    target        bytea NOT NULL,
    target_digest bytea NOT NULL,
    public_key    text NOT NULL,
    -- Tokens of requests of an admin.
    test          text NOT NULL,
    replay        text NOT NULL,
    replay_since  timestamptz,
    replay_events text[] NOT NULL,
    -- An object that is made again continues where the one before was.
    UNIQUE (namespace, name)
);
CREATE INDEX webhook_account ON webhook (account_id);
CREATE TRIGGER webhook_fence BEFORE INSERT OR UPDATE OR DELETE ON webhook FOR EACH STATEMENT EXECUTE FUNCTION reject_other_cluster();

-- What became of a webhook. The runtimes write it.
CREATE TABLE webhook_progress (
    webhook_id       uuid PRIMARY KEY REFERENCES webhook ON DELETE CASCADE,
    -- The place in the journal after which no event was looked at, and the time of the last one before it.
    epoch            bigint NOT NULL,
    xid              bigint NOT NULL,
    event_id         bigint NOT NULL,
    read_at          timestamptz,
    -- What is older has been looked at.
    seen_at          timestamptz NOT NULL DEFAULT now(),
    -- Events wait in the journal until deliveries have ended.
    full_queue       boolean NOT NULL DEFAULT false,
    missed_until     timestamptz,
    attempts         bigint NOT NULL DEFAULT 0,
    -- Attempts that have failed since the last success.
    failures         integer NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    last_attempt_at  timestamptz,
    last_success_at  timestamptz,
    last_status      integer NOT NULL DEFAULT 0,
    last_error       text NOT NULL DEFAULT '',
    -- The last attempt took long.
    slow             boolean NOT NULL DEFAULT false,
    -- The generation that the receiver has ended.
    ended_generation bigint,
    tested           text NOT NULL DEFAULT '',
    replayed         text NOT NULL DEFAULT '',
    replay_error     text NOT NULL DEFAULT ''
);
CREATE INDEX webhook_progress_slow ON webhook_progress (webhook_id) WHERE slow;

-- The last attempts of a webhook: a slot is written again. What records an attempt has the row of webhook_progress locked, and must not lock
-- that of webhook after it.
CREATE TABLE webhook_attempt (
    webhook_id   uuid NOT NULL REFERENCES webhook_progress ON DELETE CASCADE,
    slot         integer NOT NULL,
    at           timestamptz NOT NULL,
    event_id     text NOT NULL,
    type         text NOT NULL,
    number       integer NOT NULL,
    status       integer NOT NULL,
    error        text NOT NULL,
    milliseconds bigint NOT NULL,
    PRIMARY KEY (webhook_id, slot)
);

-- The public keys of the server secrets. The operator encrypts for the one that was published last, and has no private key.
CREATE TABLE webhook_key (
    id           text PRIMARY KEY,
    public_key   bytea NOT NULL,
    published_at timestamptz NOT NULL,
    -- The process that has published it. Once it is dead, one with another key publishes that.
    instance_id  uuid NOT NULL
);

-- The deliveries of a webhook end with it. They are tasks, whose account is the webhook.
-- +goose StatementBegin
CREATE FUNCTION end_work_of_webhook() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM work WHERE work.kind = 'webhook' AND work.account_id = OLD.id;
    DELETE FROM work_turn WHERE work_turn.kind = 'webhook' AND work_turn.account_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER webhook_work AFTER DELETE ON webhook FOR EACH ROW EXECUTE FUNCTION end_work_of_webhook();
