-- Background work (docs/decisions/0045).

-- +goose Up

-- A task of package work. Its kind says which worker does it; account_id is zero if it is of no account.
CREATE TABLE work (
    kind        text NOT NULL,
    key         uuid NOT NULL,
    account_id  uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- When the task may run. While it is claimed: when its claim ends.
    due_at      timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    attempts    integer NOT NULL DEFAULT 0,
    -- The text of the error of the last attempt, if it failed.
    failure     text NOT NULL DEFAULT '',
    payload     bytea NOT NULL DEFAULT '',
    -- The claim, and its process, with whose lease it ends; the process is null if it has no lease.
    claim       uuid,
    instance_id uuid CHECK (instance_id IS NULL OR claim IS NOT NULL),
    PRIMARY KEY (kind, key)
);
CREATE INDEX work_due ON work (kind, account_id, due_at);
CREATE INDEX work_claimed ON work (kind, account_id) WHERE claim IS NOT NULL;
CREATE INDEX work_expiring ON work (expires_at) WHERE expires_at IS NOT NULL;

-- Accounts take turns, in this order.
CREATE TABLE work_turn (
    kind       text NOT NULL,
    account_id uuid NOT NULL,
    served_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, kind)
);

-- Reports whether a claim has ended before its time: its process is dead. own is the process that asks: it has served for as long as
-- what is left of its own lease, because after an outage of the database the others need the time to renew theirs.
CREATE FUNCTION process_ended(instance_id uuid, own uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT instance_id IS NOT NULL
        AND EXISTS (SELECT FROM runtime_instance r WHERE r.id = own AND r.lease_ends >= now() AND r.alive_since <= now() - (r.lease_ends - now()))
        AND NOT EXISTS (SELECT FROM runtime_instance r WHERE r.id = process_ended.instance_id AND r.lease_ends >= now())
$$;

-- The tasks of an account end with it. There is no foreign key, because most tasks of a kind may be of no account.
-- +goose StatementBegin
CREATE FUNCTION end_work_of_account() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    next_kind text := (SELECT min(work.kind) FROM work);
BEGIN
    WHILE next_kind IS NOT NULL LOOP
        DELETE FROM work WHERE work.kind = next_kind AND work.account_id = OLD.id;
        next_kind := (SELECT min(work.kind) FROM work WHERE work.kind > next_kind);
    END LOOP;
    DELETE FROM work_turn WHERE work_turn.account_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER account_work AFTER DELETE ON account FOR EACH ROW EXECUTE FUNCTION end_work_of_account();
