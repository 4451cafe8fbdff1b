-- +goose NO TRANSACTION
-- +goose Up
-- The removals of an account in the order in which they are due: a task of package work is of an account (docs/decisions/0045). It takes
-- the place of the order of all removals, which the purge of the version before used; without it, that one sorts. An attempt that was ended
-- left an index that is not valid, so it is made anew.
DROP INDEX CONCURRENTLY IF EXISTS object_removal_account_due;
CREATE INDEX CONCURRENTLY object_removal_account_due ON object_removal (account_id, not_before);
DROP INDEX CONCURRENTLY IF EXISTS object_removal_due;
