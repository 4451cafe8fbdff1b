-- What the file of an item says of how it was made (docs/decisions/0053).

-- +goose Up
-- The JSON form of capture.Capture, with ms, the time in milliseconds since 1970, and cell, that of the location in a grid. {} if the file says
-- nothing, and null if it was not read.
ALTER TABLE stored_item ADD COLUMN capture jsonb;
