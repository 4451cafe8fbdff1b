package main

import (
	"context"
	"io"

	"mediastack.dev/controllers/installation"
	"mediastack.dev/runtime/postgres"
)

// takeOverCommand binds the installation to this cluster.
type takeOverCommand struct {
	Database  postgres.Config `embed:""`
	Namespace string          `env:"SERVICE_NAMESPACE" help:"Namespace of the operator, for the ConfigMap of the installation; by default that of the pod, or mediastack-system."`
	Watched   []string        `name:"watch-namespaces" env:"SERVICE_WATCH_NAMESPACES" help:"Namespaces to watch, or to look in; all if empty."`
	Confirm   bool            `help:"Take over. Without it, nothing is changed."`
}

// Run prints the report, and takes over if that was confirmed.
func (c *takeOverCommand) Run(ctx context.Context, options common, out io.Writer) error {
	kube, err := kubeConfig(options.Kubeconfig)
	if err != nil {
		return err
	}
	database, err := postgres.Open(ctx, c.Database)
	if err != nil {
		return err
	}
	defer database.Close()
	takeover, err := installation.NewTakeover(kube, namespaceOr(c.Namespace), database.Installations, out)
	if err != nil {
		return err
	}
	return actionRequired(takeover.Watching(c.Watched).Run(ctx, c.Confirm))
}

// namespaceOr returns the namespace of a flag, or its default.
func namespaceOr(flag string) string {
	if flag != "" {
		return flag
	}
	return installation.OwnNamespace()
}

// actionRequired returns the error of a command that reports whether an administrator must act.
func actionRequired(needed bool, err error) error {
	if err == nil && needed {
		return errActionRequired
	}
	return err
}
