-- Renditions: pictures that are made of images on demand (docs/decisions/0031).

-- +goose Up
-- Each change of a table holds its lock for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

-- A rendition that is stored (ready), or that a process makes: its claim. key identifies the original, the
-- recipe and the version of the encoder. id is the fence of the claim, and names the object:
-- media/<item_id>/rendition-<id>. It is another one each time, so that a removal that is carried out
-- late cannot hit an object that was made again.
--
-- There is no foreign key to stored_item: the rows end by a trigger, which counts them.
--
-- Order of locks: the item, the row of account_usage, renditions, rendition_total. What changes a rendition that has
-- bytes, or rendition_total, locks the row of account_usage first. What locks renditions without
-- that (TouchRenditions) skips those that are locked.
CREATE TABLE rendition (
    item_id     uuid NOT NULL,
    key         bytea NOT NULL CHECK (length(key) = 32),
    id          uuid NOT NULL,
    account_id  uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    preset      text NOT NULL,
    recipe_id   bytea NOT NULL CHECK (length(recipe_id) = 16),
    ready       boolean NOT NULL DEFAULT false,
    -- bytes are those of the object, which account_usage contains. 0: no object can exist yet.
    bytes       bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    -- The process of the claim, and when the claim ends, whatever the process does.
    instance_id uuid,
    lease_ends  timestamptz NOT NULL,
    mime_type   text NOT NULL DEFAULT '',
    width       integer NOT NULL DEFAULT 0,
    height      integer NOT NULL DEFAULT 0,
    sha256      bytea,
    -- used_at is when it was last used, to within an hour.
    used_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (item_id, key),
    CHECK (NOT ready OR bytes > 0 AND sha256 IS NOT NULL)
);
-- What ends to make room, those that hold no room aside.
CREATE INDEX rendition_used ON rendition (account_id, used_at) WHERE bytes > 0;
CREATE INDEX rendition_recipe ON rendition (account_id, preset, recipe_id);
CREATE INDEX rendition_claim ON rendition (lease_ends) WHERE NOT ready;

-- The renditions that are ready, by what made them. stale_since is when the purge found that no preset of the
-- account has the recipe any more.
CREATE TABLE rendition_total (
    account_id  uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    preset      text NOT NULL,
    recipe_id   bytea NOT NULL,
    items       bigint NOT NULL,
    bytes       bigint NOT NULL,
    stale_since timestamptz,
    PRIMARY KEY (account_id, preset, recipe_id)
);
CREATE INDEX rendition_total_stale ON rendition_total (stale_since) WHERE stale_since IS NOT NULL;

-- The bytes of renditions, which bytes contains.
ALTER TABLE account_usage ADD COLUMN rendition_bytes bigint NOT NULL DEFAULT 0 CHECK (rendition_bytes >= 0);

-- The renditions that the purge ended.
ALTER TABLE purge_run ADD COLUMN renditions bigint NOT NULL DEFAULT 0;

-- Reports whether the claim of a rendition has ended: its lease has, or its process is dead, as in NextFetch. own is the
-- process that asks.
CREATE FUNCTION rendition_claim_ended(instance_id uuid, lease_ends timestamptz, own uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT lease_ends < now() OR instance_id IS NOT NULL
        AND EXISTS (SELECT FROM runtime_instance r WHERE r.id = own AND r.lease_ends >= now() AND r.alive_since <= now() - (r.lease_ends - now()))
        AND NOT EXISTS (SELECT FROM runtime_instance r WHERE r.id = rendition_claim_ended.instance_id AND r.lease_ends >= now())
$$;

-- Releases the bytes of renditions that were deleted, and queues the removal of their objects. It is a trigger so
-- that no statement can omit it.
--
-- The removal of an object that may still be written is due after the end of the claim. That of another
-- one is due at once if the item was deleted (this trigger is called by that of the item then); otherwise
-- when no process has the row in its cache any more.
-- +goose StatementBegin
CREATE FUNCTION release_renditions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ended WHERE bytes > 0) THEN
        RETURN NULL;
    END IF;
    UPDATE account_usage SET bytes = account_usage.bytes - freed.bytes, rendition_bytes = account_usage.rendition_bytes - freed.bytes
    FROM (SELECT ended.account_id, sum(ended.bytes)::bigint AS bytes FROM ended GROUP BY ended.account_id) AS freed WHERE account_usage.account_id = freed.account_id;
    UPDATE rendition_total SET items = rendition_total.items - gone.items, bytes = rendition_total.bytes - gone.bytes
    FROM (SELECT ended.account_id, ended.preset, ended.recipe_id, count(*) AS items, sum(ended.bytes)::bigint AS bytes FROM ended WHERE ended.ready GROUP BY 1, 2, 3) AS gone
    WHERE rendition_total.account_id = gone.account_id AND rendition_total.preset = gone.preset AND rendition_total.recipe_id = gone.recipe_id;
    INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
    SELECT due.account_id, account.bucket, array_agg('media/' || due.item_id || '/rendition-' || due.id), false, due.not_before
    FROM (SELECT ended.account_id, ended.item_id, ended.id, CASE
            WHEN NOT ended.ready THEN greatest(ended.lease_ends, now()) + interval '1 minute'
            WHEN pg_trigger_depth() > 1 THEN now()
            ELSE now() + interval '5 minutes' END AS not_before
        FROM ended WHERE ended.bytes > 0) AS due
    JOIN account ON account.id = due.account_id AND account.bucket_removed_at IS NULL
    GROUP BY due.account_id, account.bucket, due.item_id, due.not_before;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER rendition_release AFTER DELETE ON rendition REFERENCING OLD TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION release_renditions();

-- Ends the renditions of items that were deleted. A claim locks its item (ClaimRendition), so that none can be made
-- after it. What deletes items of several accounts has locked the usage of all of them, in their order.
-- +goose StatementBegin
CREATE FUNCTION end_renditions_of_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- An array, so that the items are looked up one by one, however many renditions there are.
    ids uuid[] := ARRAY(SELECT deleted.id FROM deleted);
BEGIN
    IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = ANY (ids)) THEN
        PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id IN (SELECT deleted.account_id FROM deleted) ORDER BY account_usage.account_id FOR UPDATE;
        DELETE FROM rendition WHERE rendition.item_id = ANY (ids);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_delete_renditions AFTER DELETE ON stored_item REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION end_renditions_of_deleted();

-- The same for an item that becomes a tombstone.
-- +goose StatementBegin
CREATE FUNCTION end_renditions_of_tombstone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = NEW.id) THEN
        PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id = NEW.account_id FOR UPDATE;
        DELETE FROM rendition WHERE rendition.item_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER item_tombstone_renditions AFTER UPDATE ON stored_item FOR EACH ROW
    WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION end_renditions_of_tombstone();

-- As before, and rendition_bytes: those are no drafts.
CREATE OR REPLACE VIEW account_holding AS
SELECT account.id, account.namespace, account.name, used.bytes AS used,
    sealed.items AS sealed_items, sealed.bytes AS sealed_bytes, running.reserved,
    greatest(used.bytes - sealed.bytes - sealed.deleted - running.reserved - used.renditions, 0)::bigint AS draft_bytes,
    (SELECT coalesce(max(api_key_use.last_used_at), 'epoch') FROM api_key JOIN api_key_use ON api_key_use.key_id = api_key.id WHERE api_key.account_id = account.id)::timestamptz AS last_used_at,
    sealed.deleted AS deleted_bytes, used.renditions AS rendition_bytes
FROM account
CROSS JOIN LATERAL (SELECT coalesce(max(account_usage.bytes), 0)::bigint AS bytes, coalesce(max(account_usage.rendition_bytes), 0)::bigint AS renditions
    FROM account_usage WHERE account_usage.account_id = account.id) AS used
CROSS JOIN LATERAL (SELECT coalesce(sum(app_total.public_items + app_total.private_items), 0)::bigint AS items, coalesce(sum(app_total.bytes), 0)::bigint AS bytes,
        coalesce(sum(app_total.deleted_bytes), 0)::bigint AS deleted
    FROM app_total WHERE app_total.account_id = account.id) AS sealed
CROSS JOIN LATERAL (SELECT coalesce(sum(upload.reserved), 0)::bigint AS reserved FROM upload WHERE upload.account_id = account.id) AS running
WHERE account.closed_at IS NULL;
