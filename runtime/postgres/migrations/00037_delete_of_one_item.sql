-- As in 00030. A delete of one item, which is what most requests are, looks it up by a plain comparison: with an array, PostgreSQL plans
-- these statements again for each delete, because it expects ten elements in an array that it does not know.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_renditions_of_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- An array, so that the items are looked up one by one, however many renditions there are.
    ids uuid[] := ARRAY(SELECT deleted.id FROM deleted);
    one uuid := ids[1];
BEGIN
    IF cardinality(ids) = 1 THEN
        IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = one) THEN
            PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id = (SELECT deleted.account_id FROM deleted) FOR UPDATE;
            DELETE FROM rendition WHERE rendition.item_id = one;
        END IF;
        DELETE FROM rendition_queue WHERE rendition_queue.item_id = one;
        DELETE FROM work WHERE work.kind = 'picture' AND work.key = one;
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM rendition WHERE rendition.item_id = ANY (ids)) THEN
        PERFORM account_usage.account_id FROM account_usage WHERE account_usage.account_id IN (SELECT deleted.account_id FROM deleted) ORDER BY account_usage.account_id FOR UPDATE;
        DELETE FROM rendition WHERE rendition.item_id = ANY (ids);
    END IF;
    DELETE FROM rendition_queue WHERE rendition_queue.item_id = ANY (ids);
    DELETE FROM work WHERE work.kind = 'picture' AND work.key = ANY (ids);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
