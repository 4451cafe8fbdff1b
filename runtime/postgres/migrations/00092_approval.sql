-- Changes of assistants that wait for the yes of an owner, and counts of what connections do (docs/decisions/0061).

-- +goose Up
-- What an owner is asked: the waiting changes of one connection.
CREATE TABLE approval (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL REFERENCES account ON DELETE CASCADE,
    app_id      uuid NOT NULL,
    -- The authorization of an application (login:ID), or the key of an assistant (key:ID).
    connection  text NOT NULL,
    grant_id    uuid,
    key_id      uuid NOT NULL,
    -- Who asks, as the events of the journal have it.
    actor       text NOT NULL,
    -- waiting, allowed or denied.
    state       text NOT NULL DEFAULT 'waiting',
    -- Increases with each change that is added. An owner decides about what the page has shown.
    revision    integer NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    -- When an owner has seen the page first: no change is added after it.
    opened_at   timestamptz,
    decided_at  timestamptz,
    -- The address of the owner who has decided.
    decided_by  text
);
CREATE INDEX approval_connection ON approval (account_id, connection, created_at);
CREATE INDEX approval_expires ON approval (expires_at, id);
-- Waiting changes of one connection collect in one row.
CREATE UNIQUE INDEX approval_collecting ON approval (account_id, connection) WHERE state = 'waiting' AND opened_at IS NULL;

-- One change: of one item, or of the settings.
CREATE TABLE approval_step (
    id          uuid PRIMARY KEY,
    approval_id uuid NOT NULL REFERENCES approval ON DELETE CASCADE,
    operation   text NOT NULL,
    -- What is needed to carry it out, as JSON, and its SHA-256 with the operation, the item and its version.
    arguments   text NOT NULL,
    digest      bytea NOT NULL,
    item_id     uuid,
    version     bigint NOT NULL,
    bytes       bigint NOT NULL,
    -- waiting, done, changed (the item has changed since) or failed.
    state       text NOT NULL DEFAULT 'waiting',
    failure     text NOT NULL DEFAULT '',
    ended_at    timestamptz,
    UNIQUE (approval_id, digest)
);

-- Changes of a connection that an owner has allowed in advance.
CREATE TABLE approval_allowance (
    account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
    connection text NOT NULL,
    operation  text NOT NULL,
    remaining  integer NOT NULL,
    expires_at timestamptz NOT NULL,
    -- The address of the owner, as the events of the journal have it.
    granted_by text NOT NULL,
    PRIMARY KEY (account_id, connection, operation)
);

-- What a connection has done since the begin of a window. An empty connection is all of them.
CREATE TABLE connection_use (
    account_id   uuid NOT NULL REFERENCES account ON DELETE CASCADE,
    connection   text NOT NULL,
    kind         text NOT NULL,
    window_start timestamptz NOT NULL,
    used         bigint NOT NULL,
    PRIMARY KEY (account_id, connection, kind)
);

-- When the owners of an account were told last that something waits.
CREATE TABLE approval_notice (
    account_id uuid PRIMARY KEY REFERENCES account ON DELETE CASCADE,
    told_at    timestamptz NOT NULL
);
