package main

import (
	"context"
	"errors"
	"io"
	"time"

	"mediastack.dev/controllers/installation"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres"
)

// uninstallConnectTimeout bounds one connection attempt.
const uninstallConnectTimeout = 5 * time.Second

// uninstallCommand prepares the removal of the operator.
type uninstallCommand struct {
	DatabaseURL     string   `env:"SERVICE_DATABASE_URL" help:"PostgreSQL 15 or later, one database for one cluster: postgres://user:password@host/db (prefer the environment over the flag)."`
	Namespace       string   `env:"SERVICE_NAMESPACE" help:"Namespace of the operator, for the ConfigMap of the installation; by default that of the pod, or mediastack-system."`
	Watched         []string `name:"watch-namespaces" env:"SERVICE_WATCH_NAMESPACES" help:"Namespaces to watch, or to look in; all if empty."`
	Confirm         bool     `xor:"mode" help:"Close the accounts and delete the objects. Without it, nothing is changed."`
	Check           bool     `xor:"mode" help:"Only report whether MediaAccounts exist: exit with 0 if there are none, and with 3 otherwise. It needs no database."`
	WithoutDatabase bool     `help:"Delete the objects although the database is lost: the accounts stay open in it, and SERVICE_DATABASE_URL is not needed."`
}

// Run prints the report, and deletes the objects if that was confirmed.
func (c *uninstallCommand) Run(ctx context.Context, options common, out io.Writer) error {
	kube, err := kubeConfig(options.Kubeconfig)
	if err != nil {
		return err
	}
	namespace := namespaceOr(c.Namespace)
	if c.Check || c.WithoutDatabase {
		uninstall, err := installation.NewUninstall(kube, namespace, nil, nil, nil, out)
		if err != nil {
			return err
		}
		if c.Check {
			return actionRequired(uninstall.Watching(c.Watched).Check(ctx))
		}
		return actionRequired(uninstall.Watching(c.Watched).Run(ctx, c.Confirm))
	}
	if c.DatabaseURL == "" {
		return errors.New("SERVICE_DATABASE_URL is not set; --without-database deletes the objects without it")
	}
	database, err := postgres.Open(ctx, postgres.Config{DatabaseURL: c.DatabaseURL, ConnectTimeout: uninstallConnectTimeout})
	if err != nil {
		return err
	}
	defer database.Close()
	uninstall, err := installation.NewUninstall(kube, namespace, database.Installations, database.Webhooks, account.NewRegistry(database.Accounts, "", time.Now), out)
	if err != nil {
		return err
	}
	return actionRequired(uninstall.Watching(c.Watched).Run(ctx, c.Confirm))
}
