-- +goose Up

-- How far a resumable upload is, for whichever replica goes on with it. While it runs
-- it has a row in upload too, with its reservation and lease; when it was committed it
-- has an item. The row stays until it expires, so that a client whose last answer was
-- lost is told what became of its upload.
CREATE TABLE resumable (
    item_id      uuid PRIMARY KEY,
    account_id   uuid NOT NULL,
    app_id       uuid NOT NULL,
    length       bigint CHECK (length >= 0), -- null: the client does not know it yet
    file_name    text NOT NULL,
    claimed_type text NOT NULL,
    access       text NOT NULL CHECK (access IN ('public', 'private')),
    caption      text NOT NULL,
    group_label  text NOT NULL,
    received     bigint NOT NULL DEFAULT 0 CHECK (received >= 0 AND (length IS NULL OR received <= length)),
    digest       bytea NOT NULL DEFAULT '',
    multipart_id text NOT NULL DEFAULT '',
    parts        jsonb NOT NULL DEFAULT '[]',
    whole        boolean NOT NULL DEFAULT false,
    tail         text NOT NULL DEFAULT '',
    tail_bytes   bigint NOT NULL DEFAULT 0,
    tail_hash    bytea NOT NULL DEFAULT '',
    mime_type    text NOT NULL DEFAULT '',
    expires_at   timestamptz NOT NULL,
    FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE
);
CREATE INDEX resumable_expiry ON resumable (expires_at);
CREATE INDEX resumable_account ON resumable (account_id);

-- +goose Down
DROP TABLE resumable;
