-- As before, but sessions that are of no operator do not call the function, which has nothing to do for them.

-- +goose Up
CREATE OR REPLACE TRIGGER item_fence BEFORE DELETE ON stored_item FOR EACH STATEMENT
    WHEN (coalesce(current_setting('mediastack.cluster', true), '') <> '') EXECUTE FUNCTION reject_other_cluster();
