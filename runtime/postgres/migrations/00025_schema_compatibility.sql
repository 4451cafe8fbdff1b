-- Which programs may use the schema (docs/decisions/0039).

-- +goose Up
-- oldest_program is the newest migration that the oldest of these programs knows. A program that does not know this
-- migration serves nothing. Only a migration that removes something raises it, a release after the last program that
-- used it. Programs from this migration on compare it.
CREATE TABLE schema_compatibility (
    singleton      boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    oldest_program bigint NOT NULL
);
INSERT INTO schema_compatibility (oldest_program) VALUES (25);
