-- Pictures of presets that are made in advance (docs/decisions/0031).

-- +goose Up
-- Each change of a table holds its lock for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

-- An account that has, or had, eager presets. The others have no row, and cost nothing.
CREATE TABLE rendition_eager (
    account_id uuid PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    -- active is false while no preset is eager: nothing is queued then. A preset that a pin hides counts.
    active     boolean NOT NULL,
    -- changed counts the changes of the account's presets. seen is the one that a process has looked at, with this version
    -- of the encoder; recipes is a digest of what is made in advance since then, null for nothing.
    changed    bigint NOT NULL DEFAULT 1,
    seen       bigint NOT NULL DEFAULT 0,
    encoder    integer NOT NULL DEFAULT 0,
    recipes    bytea,
    -- The pass over the sealed items, newest first: those before this id are still to be queued; null while there is no
    -- pass. passed is how many items it has seen, those that are no images included.
    before_id  uuid,
    passed     bigint NOT NULL DEFAULT 0,
    -- Accounts take turns, in this order.
    served_at  timestamptz NOT NULL DEFAULT 'epoch',
    -- Nothing is claimed before: the storage cap had no room.
    not_before timestamptz NOT NULL DEFAULT 'epoch'
);

-- The items of which pictures may have to be made. A row ends with its item, by a trigger. claim is that of the process that works
-- on it until due_at; then another one may.
CREATE TABLE rendition_queue (
    item_id    uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    rebuild    boolean NOT NULL DEFAULT false, -- queued by a pass, which goes on when the account has no such row
    due_at     timestamptz NOT NULL DEFAULT now(),
    attempts   integer NOT NULL DEFAULT 0,
    claim      uuid
);
CREATE INDEX rendition_queue_account ON rendition_queue (account_id, rebuild, due_at);

-- Records that the presets of an account have changed. The row is locked before the settings are read: RemovePins and
-- SetTenantSettings run at the same time.
-- +goose StatementBegin
CREATE FUNCTION note_eager_presets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed_account uuid := CASE WHEN TG_OP = 'DELETE' THEN OLD.account_id ELSE NEW.account_id END;
    is_eager boolean;
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.fields -> 'presets' IS NOT DISTINCT FROM NEW.fields -> 'presets' THEN
        RETURN NULL;
    END IF;
    PERFORM FROM rendition_eager WHERE account_id = changed_account FOR NO KEY UPDATE;
    is_eager := EXISTS (SELECT FROM settings_pin WHERE account_id = changed_account AND fields @> '{"presets": [{"eager": true}]}')
        OR EXISTS (SELECT FROM settings_tenant WHERE account_id = changed_account AND fields @> '{"presets": [{"eager": true}]}');
    IF is_eager THEN
        INSERT INTO rendition_eager (account_id, active) SELECT id, true FROM account WHERE id = changed_account
        ON CONFLICT (account_id) DO UPDATE SET active = true, changed = rendition_eager.changed + 1;
    ELSE
        UPDATE rendition_eager SET active = false, changed = rendition_eager.changed + 1 WHERE account_id = changed_account;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER settings_pin_eager AFTER INSERT OR UPDATE OR DELETE ON settings_pin FOR EACH ROW EXECUTE FUNCTION note_eager_presets();
CREATE TRIGGER settings_tenant_eager AFTER INSERT OR UPDATE OR DELETE ON settings_tenant FOR EACH ROW EXECUTE FUNCTION note_eager_presets();

-- As before, and the rows of the queue.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_renditions_of_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- An array, so that the items are looked up one by one, however many renditions there are.
    ids uuid[] := ARRAY(SELECT deleted.id FROM deleted);
BEGIN
    IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = ANY (ids)) THEN
        PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id IN (SELECT deleted.account_id FROM deleted) ORDER BY account_usage.account_id FOR UPDATE;
        DELETE FROM rendition WHERE rendition.item_id = ANY (ids);
    END IF;
    DELETE FROM rendition_queue WHERE rendition_queue.item_id = ANY (ids);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_renditions_of_tombstone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = NEW.id) THEN
        PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id = NEW.account_id FOR UPDATE;
        DELETE FROM rendition WHERE rendition.item_id = NEW.id;
    END IF;
    DELETE FROM rendition_queue WHERE rendition_queue.item_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
