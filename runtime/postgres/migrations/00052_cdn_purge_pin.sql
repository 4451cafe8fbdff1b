-- Changed pins purge pictures from a CDN (docs/decisions/0050).

-- +goose Up
CREATE TRIGGER settings_pin_cdn AFTER INSERT OR UPDATE OR DELETE ON settings_pin FOR EACH ROW EXECUTE FUNCTION purge_settings_of_cdn();
