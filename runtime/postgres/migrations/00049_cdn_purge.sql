-- What a CDN has to forget (docs/decisions/0050). Triggers queue it, so that no statement can omit it, and so that programs of the version
-- before do, too.

-- +goose Up
-- A row while a runtime has a purger, or had one within a day: without one, nothing is queued.
CREATE TABLE cdn_purger (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    seen_at   timestamptz NOT NULL DEFAULT now()
);

-- The files of an item, the pictures of a preset, or all public files of an account.
CREATE TABLE cdn_purge (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- No reference: an account may be gone before.
    account_id uuid NOT NULL,
    item_id    uuid,
    preset     text,
    queued_at  timestamptz NOT NULL DEFAULT now(),
    due_at     timestamptz NOT NULL DEFAULT now(),
    -- When it was sent first. It is sent a second time, because an answer may have been on its way to the CDN.
    sent_at    timestamptz
);
CREATE INDEX cdn_purge_due ON cdn_purge (due_at, id);
-- Those that were not sent: the oldest one is that of an alert.
CREATE INDEX cdn_purge_waiting ON cdn_purge (queued_at) WHERE sent_at IS NULL;

-- The public files of a closed account were purged when it was closed.
-- +goose StatementBegin
CREATE FUNCTION purge_item_of_cdn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM cdn_purger) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.sealed_at IS NOT NULL AND (NEW.access, NEW.file_name, NEW.focus_x, NEW.focus_y, NEW.objects)
        IS NOT DISTINCT FROM (OLD.access, OLD.file_name, OLD.focus_x, OLD.focus_y, OLD.objects) THEN
        RETURN NULL;
    END IF;
    INSERT INTO cdn_purge (account_id, item_id) SELECT account.id, OLD.id FROM account WHERE account.id = OLD.account_id AND account.closed_at IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION purge_account_of_cdn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO cdn_purge (account_id) SELECT NEW.id FROM cdn_purger;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- The pictures of presets that differ between two layers of settings, and all files of an account whose originals begin, or cease, to be signed.
-- +goose StatementBegin
CREATE FUNCTION purge_settings_of_cdn() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed_account uuid := CASE WHEN TG_OP = 'DELETE' THEN OLD.account_id ELSE NEW.account_id END;
    before jsonb := CASE WHEN TG_OP = 'INSERT' THEN '{}' ELSE OLD.fields END;
    after jsonb := CASE WHEN TG_OP = 'DELETE' THEN '{}' ELSE NEW.fields END;
BEGIN
    IF NOT EXISTS (SELECT FROM cdn_purger) THEN
        RETURN NULL;
    END IF;
    IF before -> 'originals' IS DISTINCT FROM after -> 'originals' THEN
        INSERT INTO cdn_purge (account_id) VALUES (changed_account);
        RETURN NULL;
    END IF;
    INSERT INTO cdn_purge (account_id, preset)
    SELECT changed_account, coalesce(former.preset ->> 'name', latter.preset ->> 'name')
    FROM jsonb_array_elements(coalesce(before -> 'presets', '[]')) AS former (preset)
    FULL JOIN jsonb_array_elements(coalesce(after -> 'presets', '[]')) AS latter (preset) ON former.preset ->> 'name' = latter.preset ->> 'name'
    WHERE former.preset IS DISTINCT FROM latter.preset;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
