package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"mediastack.dev/controllers/operator"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// runCommand runs the operator.
type runCommand struct {
	Operator operator.Config    `embed:""`
	Database postgres.Config    `embed:""`
	S3       objectstore.Config `embed:"" prefix:"s3-"`
}

// Validate checks the credentials of S3; kong calls it, before it names required settings that are
// missing.
func (c *runCommand) Validate() error {
	if c.Operator.BaseURL == "" || c.Database.DatabaseURL == "" || c.S3.Endpoint == "" {
		return nil
	}
	return c.S3.Validate()
}

// Run builds the operator and runs it until ctx ends.
func (c *runCommand) Run(ctx context.Context, options common, log *slog.Logger) error {
	kube, err := kubeConfig(options.Kubeconfig)
	if err != nil {
		return err
	}
	if err := c.Database.Validate(); err != nil {
		return err
	}
	c.Database.RetryTimeout = 0 // a reconcile that fails is repeated, at a pace that all share
	database, err := postgres.Open(ctx, c.Database)
	if err != nil {
		return err
	}
	defer database.Close()
	buckets, err := objectstore.New(c.S3)
	if err != nil {
		return err
	}
	registry := metrics.Registry
	if err := errors.Join(registry.Register(buildInfo()), database.Register(registry), buckets.Register(registry)); err != nil {
		return err
	}
	log.Info("starting", "version", version)
	return operator.Run(ctx, kube, c.Operator, operator.Deps{
		Accounts: database.Accounts, Settings: database.Settings, Pictures: database.Pictures, Webhooks: database.Webhooks, Buckets: buckets, Runtimes: database.Installations, Changes: database, Installation: database.Installations, Markers: buckets, Now: time.Now, Log: log,
	}, registry)
}

// buildInfo is 1, with the version as a label.
func buildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mediastack_build_info", Help: "1, with the version of the program.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	return info
}
