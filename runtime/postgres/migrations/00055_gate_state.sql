-- Whether an item may be sealed, in an account that checks files before (docs/decisions/0051).

-- +goose Up
-- 0: there is no result. 1: it is waited for. 2: the item may be sealed. 3: it may not. 4: as 1, and it is sealed when it may be; seal_actor is
-- who wants that, as in the journal. No statement, of any version, seals an item that waits or was rejected.
ALTER TABLE stored_item ADD COLUMN gate_state smallint NOT NULL DEFAULT 0, ADD COLUMN seal_actor text,
    ADD CONSTRAINT item_gate CHECK (sealed_at IS NULL OR gate_state IN (0, 2)) NOT VALID;
