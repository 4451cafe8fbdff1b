-- A small upload is one statement: its object is stored before anything is recorded of it. What a crash may leave behind is recorded
-- once for each process and bucket, here (docs/decisions/0043).

-- +goose Up
CREATE TABLE upload_writer (
    -- number is in the keys of the objects that the process stores.
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- There is no foreign key: programs of before delete the rows of dead processes.
    instance_id   uuid NOT NULL,
    account_id    uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    bucket        text NOT NULL,
    -- No object with the number is of an item with a smaller id.
    since         uuid NOT NULL,
    -- A commit names the value that it knows. A process increases it to be certain about a commit whose outcome it does not know.
    fence         bigint NOT NULL DEFAULT 0,
    registered_at timestamptz NOT NULL DEFAULT now(),
    -- Set by another process, once this one is dead. No commit names the row afterwards.
    ended_at      timestamptz
);
CREATE INDEX upload_writer_instance ON upload_writer (instance_id) WHERE ended_at IS NULL;
CREATE INDEX upload_writer_account ON upload_writer (account_id);
CREATE INDEX upload_writer_ended ON upload_writer (account_id, ended_at) WHERE ended_at IS NOT NULL;
