-- +goose Up

-- The index of pages: how many sealed items of an app are in each stretch of ids, so
-- that a page deep in a list is found without walking over all items before it. A
-- block reaches from first_id to the next block's; the first one begins at zero.
CREATE TABLE item_block (
    app_id       uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    first_id     uuid NOT NULL,
    items        bigint NOT NULL CHECK (items >= 0),
    public_items bigint NOT NULL CHECK (public_items BETWEEN 0 AND items),
    PRIMARY KEY (app_id, first_id) INCLUDE (items, public_items)
);

-- What was sealed (1) and deleted (-1) since the blocks were counted. Only added to
-- by requests, so that they never wait for each other; folded into the blocks later.
CREATE TABLE item_change (
    app_id uuid NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    id     uuid NOT NULL,
    delta  smallint NOT NULL,
    public boolean NOT NULL
);
CREATE INDEX item_change_app ON item_change (app_id);

-- What is there already is one block, until it is first folded.
INSERT INTO item_block (app_id, first_id, items, public_items)
SELECT app_id, '00000000-0000-0000-0000-000000000000', count(*), count(*) FILTER (WHERE access = 'public')
FROM item WHERE sealed_at IS NOT NULL GROUP BY app_id;
INSERT INTO item_change (app_id, id, delta, public)
SELECT app_id, first_id, 0, false FROM item_block;

-- +goose Down
DROP TABLE item_change, item_block;
