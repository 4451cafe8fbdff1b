// Package provision makes accounts as the operator does, without Kubernetes. The benchmarks, the chaos
// run and the tests of clients use it.
package provision

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// Tenant is an account with its bucket, and its Default App with a key.
type Tenant struct {
	Account account.Account
	AppID   uuid.UUID
	APIKey  string
}

// Accounts migrates a database and makes accounts in it.
func Accounts(ctx context.Context, databaseURL string, access servers.S3Access, specs ...account.Spec) ([]Tenant, error) {
	return AccountsOfCell(ctx, 0, databaseURL, access, specs...)
}

// AccountsOfCell is Accounts for the installation with this number.
func AccountsOfCell(ctx context.Context, number cell.Number, databaseURL string, access servers.S3Access, specs ...account.Spec) ([]Tenant, error) {
	config := postgres.Config{DatabaseURL: databaseURL, Cell: number}
	if err := postgres.Migrate(ctx, config, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	if err != nil {
		return nil, err
	}
	registry := account.NewRegistry(store.Accounts, "provision", time.Now)
	identity, err := store.Installations.Identity(ctx)
	if err != nil {
		return nil, err
	}
	var tenants []Tenant
	for _, spec := range specs {
		tenant, err := provision(ctx, registry, objects, identity, spec)
		if err != nil {
			return nil, fmt.Errorf("provision %s/%s: %w", spec.Namespace, spec.Name, err)
		}
		tenants = append(tenants, tenant)
	}
	return tenants, nil
}

func provision(ctx context.Context, registry *account.Registry, objects *objectstore.Store, identity installation.Identity, spec account.Spec) (Tenant, error) {
	made, err := registry.Ensure(ctx, spec)
	if err != nil {
		return Tenant{}, err
	}
	owner := objectstore.Owner{AccountID: made.ID.String(), Namespace: made.Namespace, Name: made.Name, InstallationID: identity.ID}
	if _, err := objects.Claim(ctx, objectstore.ClaimRequest{Bucket: made.Bucket, Owner: owner, Epoch: identity.Epoch}); err != nil {
		return Tenant{}, err
	}
	if err := registry.SetBucketOwned(ctx, made.ID, true); err != nil {
		return Tenant{}, err
	}
	apps, _, err := registry.OpenApps(ctx, made.ID, nil)
	if err != nil {
		return Tenant{}, err
	}
	token, _, err := registry.IssueKey(ctx, apps[0].ID, 1, 0)
	if err != nil {
		return Tenant{}, err
	}
	return Tenant{Account: made, AppID: apps[0].ID, APIKey: token.Reveal()}, nil
}
