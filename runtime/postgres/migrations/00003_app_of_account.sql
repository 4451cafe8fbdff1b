-- +goose Up

-- An item's app is an app of the item's account: one reference says so, where two said
-- less and cost every upload twice the checks.
ALTER TABLE app ADD UNIQUE (id, account_id);

ALTER TABLE upload DROP CONSTRAINT upload_account_id_fkey, DROP CONSTRAINT upload_app_id_fkey,
    ADD FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE;

ALTER TABLE item DROP CONSTRAINT item_account_id_fkey, DROP CONSTRAINT item_app_id_fkey,
    ADD FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE;

-- +goose Down
ALTER TABLE item DROP CONSTRAINT item_app_id_account_id_fkey,
    ADD FOREIGN KEY (account_id) REFERENCES account (id) ON DELETE CASCADE,
    ADD FOREIGN KEY (app_id) REFERENCES app (id) ON DELETE CASCADE;

ALTER TABLE upload DROP CONSTRAINT upload_app_id_account_id_fkey,
    ADD FOREIGN KEY (account_id) REFERENCES account (id) ON DELETE CASCADE,
    ADD FOREIGN KEY (app_id) REFERENCES app (id) ON DELETE CASCADE;

ALTER TABLE app DROP CONSTRAINT app_id_account_id_key;
