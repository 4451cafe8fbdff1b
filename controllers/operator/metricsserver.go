package operator

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// MetricsTLSConfig configures TLS of the metrics. With it, the Kubernetes API decides who reads them.
type MetricsTLSConfig struct {
	CertFile string `env:"SERVICE_METRICS_TLS_CERT_FILE" help:"PEM file of the certificate and its chain: the port of the metrics then takes HTTPS only. Of the operator, the Kubernetes API then decides who reads its metrics."`
	KeyFile  string `env:"SERVICE_METRICS_TLS_KEY_FILE" help:"PEM file of the private key of SERVICE_METRICS_TLS_CERT_FILE."`
}

// Enabled reports whether the metrics are served by TLS.
func (c MetricsTLSConfig) Enabled() bool { return c.CertFile != "" }

// Validate checks that both files are named.
func (c MetricsTLSConfig) Validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("SERVICE_METRICS_TLS_CERT_FILE and SERVICE_METRICS_TLS_KEY_FILE must be set together")
	}
	return nil
}

// metricsServers returns the server of metrics, and with TLS what follows the files of its certificate; none
// if the metrics are off.
func metricsServers(kube *rest.Config, cfg Config, registry prometheus.Registerer) ([]manager.Runnable, error) {
	if cfg.MetricsListen == "0" {
		return nil, nil
	}
	options := metricsserver.Options{BindAddress: cfg.MetricsListen, ExtraHandlers: profiles(cfg)}
	var all []manager.Runnable
	if cfg.MetricsTLS.Enabled() {
		// Its own check: without files the server would make a certificate of its own, which no client can verify.
		files, err := certwatcher.New(cfg.MetricsTLS.CertFile, cfg.MetricsTLS.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the certificate of SERVICE_METRICS_TLS_CERT_FILE and SERVICE_METRICS_TLS_KEY_FILE cannot be used: %w", err)
		}
		if err := registry.Register(expiry(files)); err != nil {
			return nil, err
		}
		all = append(all, files)
		options.SecureServing, options.FilterProvider = true, func(kube *rest.Config, _ *http.Client) (metricsserver.Filter, error) {
			readers, err := newMetricsReaders(kube, time.Now)
			if err != nil {
				return nil, err
			}
			return readers.filter, nil
		}
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion, c.GetCertificate = tls.VersionTLS12, files.GetCertificate
		}}
	}
	server, err := metricsserver.NewServer(options, kube, http.DefaultClient)
	if err != nil {
		return nil, fmt.Errorf("create the server of metrics: %w", err)
	}
	if server != nil {
		all = append(all, server)
	}
	return all, nil
}

// expiry is when the certificate in use expires.
func expiry(files *certwatcher.CertWatcher) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediastack_operator_tls_certificate_not_after_timestamp_seconds",
		Help: "Time at which the TLS certificate of the metrics expires, in seconds since 1970. With `SERVICE_METRICS_TLS_CERT_FILE` only.",
	}, func() float64 {
		// certwatcher.New has read one, with its leaf, and its method returns no error.
		certificate, _ := files.GetCertificate(nil)
		return float64(certificate.Leaf.NotAfter.Unix())
	})
}
