package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// template is what the operator wrote for one account. The bare loop writes the same for others, with
// their names and ids.
type template struct {
	Namespace, Name string // of the account
	UID             string // of the MediaAccount
	Bucket          string
	AccountStatus   json.RawMessage
	SettingsStatus  json.RawMessage
	Finalizers      []string
	Secrets         []json.RawMessage
	Rows            []tableRows
}

// tableRows are the account's rows of a table, as a JSON array.
type tableRows struct {
	Table string
	Rows  json.RawMessage
}

const templateName = "template-account"

// makeTemplate has the operator provide one account, and reads what it wrote.
func (c *cluster) makeTemplate(ctx context.Context, f fleet) (*template, error) {
	if err := c.startOperator(ctx); err != nil {
		return nil, err
	}
	ready, err := c.watchReady(ctx, fleetNamespace)
	if err != nil {
		return nil, err
	}
	defer ready.stop()
	objects := newAccount(fleetNamespace, templateName, f.apps)
	for _, object := range objects {
		if err := c.api.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	if err := ready.wait(ctx, len(objects)); err != nil {
		return nil, err
	}
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	c.operator.Stop()
	return c.readTemplate(ctx)
}

func (c *cluster) readTemplate(ctx context.Context) (*template, error) {
	key := kube.ObjectKey{Namespace: fleetNamespace, Name: templateName}
	var account v1alpha1.MediaAccount
	var settings v1alpha1.MediaSettings
	var secrets corev1.SecretList
	for _, err := range []error{c.api.Get(ctx, key, &account), c.api.Get(ctx, key, &settings),
		c.api.List(ctx, &secrets, kube.InNamespace(fleetNamespace), kube.HasLabels{v1alpha1.LabelAccount})} {
		if err != nil {
			return nil, err
		}
	}
	t := &template{Namespace: key.Namespace, Name: key.Name, UID: string(account.UID), Bucket: account.Status.Bucket, Finalizers: account.Finalizers}
	var err error
	if t.AccountStatus, err = json.Marshal(account.Status); err != nil {
		return nil, err
	}
	if t.SettingsStatus, err = json.Marshal(settings.Status); err != nil {
		return nil, err
	}
	for _, secret := range secrets.Items {
		secret.ResourceVersion, secret.UID, secret.ManagedFields = "", "", nil
		secret.Kind, secret.APIVersion = "Secret", "v1"
		text, err := json.Marshal(secret)
		if err != nil {
			return nil, err
		}
		t.Secrets = append(t.Secrets, text)
	}
	t.Rows, err = c.readRows(ctx, account.Status.AccountID)
	return t, err
}

// readRows reads the account's rows of every table, those that others refer to first.
func (c *cluster) readRows(ctx context.Context, accountID string) ([]tableRows, error) {
	found, err := c.sql.Query(ctx, `SELECT table_name AS "table", min(column_name) AS "column" FROM information_schema.columns
		WHERE table_schema = 'public' AND (column_name IN ('account_id', 'app_id') OR table_name = 'account' AND column_name = 'id')
		GROUP BY table_name ORDER BY table_name = 'account' DESC, table_name = 'app' DESC, table_name = 'api_key' DESC, table_name`)
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(found, pgx.RowToStructByName[struct{ Table, Column string }])
	if err != nil {
		return nil, err
	}
	var rows []tableRows
	for _, table := range tables {
		filter := table.Column + " = $1"
		if table.Column == "app_id" {
			filter = "app_id IN (SELECT id FROM app WHERE account_id = $1)"
		}
		one := tableRows{Table: table.Table}
		if err := c.sql.QueryRow(ctx, fmt.Sprintf("SELECT coalesce(json_agg(t), '[]') FROM %s t WHERE %s", pgx.Identifier{table.Table}.Sanitize(), filter), accountID).Scan(&one.Rows); err != nil {
			return nil, fmt.Errorf("read %s: %w", table.Table, err)
		}
		if string(one.Rows) != "[]" {
			rows = append(rows, one)
		}
	}
	return rows, nil
}
