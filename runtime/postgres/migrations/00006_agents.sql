-- +goose Up

-- What assistants may do in an account (spec.mcp). A null list permits every tool, an
-- empty one none.
ALTER TABLE account
    ADD COLUMN mcp_read_only boolean NOT NULL DEFAULT false,
    ADD COLUMN mcp_tools text[];

-- +goose Down
ALTER TABLE account DROP COLUMN mcp_read_only, DROP COLUMN mcp_tools;
