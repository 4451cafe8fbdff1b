-- Lists can be searched, sorted and read by cursor (docs/decisions/0026). No row is rewritten, and
-- every statement can be repeated: a run that was interrupted is continued by the next one.

-- +goose NO TRANSACTION
-- +goose Up

-- The type and the size of the file that the document of an item describes: the WebP conversion if
-- there is one, else the original, which is the first object.
CREATE OR REPLACE FUNCTION item_file_type(objects jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT coalesce(jsonb_path_query_first(objects, '$[*] ? (@.variant == "webp")'), objects -> 0) ->> 'mimeType'$$;
CREATE OR REPLACE FUNCTION item_file_size(objects jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT coalesce((coalesce(jsonb_path_query_first(objects, '$[*] ? (@.variant == "webp")'), objects -> 0) ->> 'bytes')::bigint, 0)$$;

-- The hash of a term. It contains the app, so that no list of terms has the items of two apps.
CREATE OR REPLACE FUNCTION item_term(app_id uuid, term text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT hashtextextended(term, uuid_hash_extended(app_id, 0))$$;

-- The hashes of the terms of an item: its access, group, type, kind of type, the pairs of its metadata,
-- and every three and every five consecutive characters of its name: three are in many names of a large
-- app, and combining long lists takes long. termsOf in ../find_statement.go returns the terms
-- of a search. The body calls functions of PostgreSQL only: a restore has an empty search path.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION item_terms(app_id uuid, access text, group_label text, file_name text, file_type text, metadata jsonb)
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    seed  bigint := uuid_hash_extended(app_id, 0);
    name  text := lower(file_name COLLATE "C");
    terms bigint[] := ARRAY[hashtextextended('a' || access, seed)];
    pair  record;
BEGIN
    IF group_label <> '' THEN
        terms := terms || hashtextextended('g' || group_label, seed);
    END IF;
    IF file_type <> '' THEN
        terms := terms || hashtextextended('t' || file_type, seed) || hashtextextended('t' || split_part(file_type, '/', 1) || '/*', seed);
    END IF;
    FOR at IN 1 .. length(name) - 2 LOOP
        terms := terms || hashtextextended('n' || substr(name, at, 3), seed);
        IF at <= length(name) - 4 THEN
            terms := terms || hashtextextended('n' || substr(name, at, 5), seed);
        END IF;
    END LOOP;
    IF metadata <> '{}' THEN
        FOR pair IN SELECT key, value FROM jsonb_each_text(metadata) LOOP
            terms := terms || hashtextextended('m' || pair.key || '=' || pair.value, seed);
        END LOOP;
    END IF;
    RETURN terms;
END
$$;
-- +goose StatementEnd

-- The orders by name and by size. Drafts are in neither.
DROP INDEX CONCURRENTLY IF EXISTS item_list_name;
CREATE INDEX CONCURRENTLY item_list_name ON item (app_id, lower(file_name COLLATE "C"), id) WHERE sealed_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_list_size;
CREATE INDEX CONCURRENTLY item_list_size ON item (app_id, item_file_size(objects), id) WHERE sealed_at IS NOT NULL;

-- The items by term. The planner does not know that the condition is that of the other indexes: a search
-- by terms can use this index only. Requests read the pending list from its start, so that it is short.
DROP INDEX CONCURRENTLY IF EXISTS item_terms;
CREATE INDEX CONCURRENTLY item_terms ON item USING gin (item_terms(app_id, access, group_label, file_name, item_file_type(objects), metadata))
    WITH (gin_pending_list_limit = 128) WHERE (sealed_at IS NULL) IS FALSE;

-- The drafts of an app, in the place of those of an account: a draft has as many indexes as before.
DROP INDEX CONCURRENTLY IF EXISTS item_draft_app;
CREATE INDEX CONCURRENTLY item_draft_app ON item (account_id, app_id, id) WHERE sealed_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS item_draft_account;
