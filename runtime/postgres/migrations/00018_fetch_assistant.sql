-- The tool policy limits the jobs that were asked for at MCP, also those of a key (docs/decisions/0030).

-- +goose Up

-- The lock is held for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

ALTER TABLE fetch_job ADD COLUMN IF NOT EXISTS assistant boolean NOT NULL DEFAULT false;
