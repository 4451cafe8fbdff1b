-- Files that a scanner has found something in (docs/decisions/0051).

-- +goose Up
-- The objects stay under their keys, count towards no cap, and are served to nobody.
CREATE TABLE quarantine (
    item_id     uuid PRIMARY KEY,
    account_id  uuid NOT NULL REFERENCES account ON DELETE CASCADE,
    app_id      uuid NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    -- What the scanner calls it.
    finding     text NOT NULL,
    -- The row that the item had.
    item        jsonb NOT NULL,
    objects     jsonb NOT NULL,
    bytes       bigint NOT NULL
);
CREATE INDEX quarantine_account ON quarantine (account_id, at);
CREATE INDEX quarantine_at ON quarantine (at, item_id);

-- When the owners of an account were told last.
CREATE TABLE gate_notice (
    account_id uuid PRIMARY KEY REFERENCES account ON DELETE CASCADE,
    told_at    timestamptz NOT NULL
);
