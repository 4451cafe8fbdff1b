-- Which changes of assistants wait for the yes of an owner, and what bounds them (docs/decisions/0061).

-- +goose Up
-- {delete, publish, settings, bulkItems, bulkWindow} and {each, total}; without them, nothing waits and nothing is bounded.
ALTER TABLE account ADD COLUMN approval jsonb, ADD COLUMN ceilings jsonb;
