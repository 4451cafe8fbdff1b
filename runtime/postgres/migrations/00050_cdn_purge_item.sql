-- Changes of public items purge their files from a CDN (docs/decisions/0050). An upload and a seal name none of the columns, so they cost
-- nothing more.

-- +goose Up
CREATE TRIGGER item_cdn_deleted AFTER DELETE ON stored_item FOR EACH ROW
    WHEN (OLD.sealed_at IS NOT NULL AND OLD.access = 'public') EXECUTE FUNCTION purge_item_of_cdn();
CREATE TRIGGER item_cdn_changed AFTER UPDATE OF deleted_at, access, file_name, focus_x, focus_y, objects ON stored_item FOR EACH ROW
    WHEN (OLD.sealed_at IS NOT NULL AND OLD.access = 'public') EXECUTE FUNCTION purge_item_of_cdn();
