-- Files that assistants request of a person (docs/decisions/0059).

-- +goose Up
-- The row and the token of the address together are an upload capability. capability_id is a SHA-256: neither can be made from it.
CREATE TABLE upload_request (
    id            uuid PRIMARY KEY,
    account_id    uuid NOT NULL REFERENCES account ON DELETE CASCADE,
    app_id        uuid NOT NULL,
    -- The connection that has requested the file: an authorization, or the key of an assistant.
    key_id        uuid NOT NULL,
    grant_id      uuid,
    connection    text NOT NULL,
    capability_id bytea NOT NULL UNIQUE CHECK (length(capability_id) = 32),
    -- What the upload may be, as a signature has it.
    capability    jsonb NOT NULL,
    -- The last upload that took the use of the capability, which has the id of its item.
    item_id       uuid,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL
);
CREATE INDEX upload_request_connection ON upload_request (account_id, connection, expires_at);
CREATE INDEX upload_request_expires ON upload_request (expires_at, id);
