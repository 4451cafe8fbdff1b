package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// newRegistry returns a registry with the metrics of the process and of its stores.
func newRegistry(store *postgres.Store, objects *objectstore.Store) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mediastack_build_info", Help: "1, with the version of the program.",
		ConstLabels: prometheus.Labels{"version": versionText()},
	})
	build.Set(1)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	for _, register := range []func(prometheus.Registerer) error{store.Register, store.RegisterUploads, objects.Register} {
		if err := register(registry); err != nil {
			return nil, err
		}
	}
	return registry, nil
}

// newAccountMetrics returns the metrics of accounts, nil if they are off.
func newAccountMetrics(cfg accountmetrics.Config, registry *prometheus.Registry) (*accountmetrics.Metrics, error) {
	accounts, err := accountmetrics.New(cfg, time.Now)
	if err != nil || accounts == nil {
		return nil, err
	}
	return accounts, registry.Register(accounts)
}
