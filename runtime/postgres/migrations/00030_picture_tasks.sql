-- Pictures in advance are tasks of package work, of the kind picture (docs/decisions/0045). A task is of an item, or of an account: its key
-- is the id of either. rendition_queue is left to programs of before; the others make tasks of its rows.

-- +goose Up

-- No task of the account is claimed before.
ALTER TABLE work_turn ADD COLUMN not_before timestamptz NOT NULL DEFAULT 'epoch';

-- Counts a change of the presets of an account that has, or had, eager presets, and adds the task of the account, which looks at it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_eager_presets() RETURNS trigger LANGUAGE plpgsql AS $$
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
    -- It is before the items of the account: without room, only the first task is tried.
    INSERT INTO work (kind, key, account_id, due_at)
    SELECT 'picture', e.account_id, e.account_id, least(now(), (SELECT min(w.due_at) - interval '1 second' FROM work w WHERE w.kind = 'picture' AND w.account_id = e.account_id))
    FROM rendition_eager e WHERE e.account_id = changed_account
    ON CONFLICT (kind, key) DO UPDATE SET due_at = excluded.due_at, attempts = 0, failure = '' WHERE work.claim IS NULL;
    UPDATE work_turn SET not_before = 'epoch' WHERE work_turn.kind = 'picture' AND work_turn.account_id = changed_account AND work_turn.not_before > now();
    RETURN NULL;
END
$$;

-- As in 00023; the task of an item ends with it, too.
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
    DELETE FROM work WHERE work.kind = 'picture' AND work.key = ANY (ids);
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION end_renditions_of_tombstone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = NEW.id) THEN
        PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id = NEW.account_id FOR UPDATE;
        DELETE FROM rendition WHERE rendition.item_id = NEW.id;
    END IF;
    DELETE FROM rendition_queue WHERE rendition_queue.item_id = NEW.id;
    DELETE FROM work WHERE work.kind = 'picture' AND work.key = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
