-- The suspension and the end of an account purge its files from a CDN (docs/decisions/0050).

-- +goose Up
CREATE TRIGGER account_cdn AFTER UPDATE OF suspended, closed_at ON account FOR EACH ROW
    WHEN (NEW.suspended AND NOT OLD.suspended OR NEW.closed_at IS NOT NULL AND OLD.closed_at IS NULL) EXECUTE FUNCTION purge_account_of_cdn();
