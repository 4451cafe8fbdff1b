-- Changed settings of tenants purge pictures from a CDN (docs/decisions/0050).

-- +goose Up
CREATE TRIGGER settings_tenant_cdn AFTER INSERT OR UPDATE OR DELETE ON settings_tenant FOR EACH ROW EXECUTE FUNCTION purge_settings_of_cdn();
