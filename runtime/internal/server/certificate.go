package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TLSConfig configures HTTPS on the public port. Without files it serves HTTP, and a proxy in front
// ends TLS.
type TLSConfig struct {
	CertFile       string        `env:"SERVICE_TLS_CERT_FILE" help:"PEM file of the certificate and its chain; SERVICE_LISTEN then takes HTTPS only."`
	KeyFile        string        `env:"SERVICE_TLS_KEY_FILE" help:"PEM file of the certificate's private key."`
	ReloadInterval time.Duration `env:"SERVICE_TLS_RELOAD_INTERVAL" default:"10s" help:"Interval at which both files are read again, from 100ms to 1h."`
}

// Bounds of TLSConfig.ReloadInterval.
const (
	minReloadInterval = 100 * time.Millisecond
	maxReloadInterval = time.Hour
)

// Enabled reports whether the service listens for HTTPS.
func (c TLSConfig) Enabled() bool { return c.CertFile != "" }

// Validate checks the bounds.
func (c TLSConfig) Validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("SERVICE_TLS_CERT_FILE and SERVICE_TLS_KEY_FILE must be set together")
	}
	if c.ReloadInterval < 0 || c.Enabled() && (c.ReloadInterval < minReloadInterval || c.ReloadInterval > maxReloadInterval) {
		return fmt.Errorf("SERVICE_TLS_RELOAD_INTERVAL must be from %s to %s, not %s", minReloadInterval, maxReloadInterval, c.ReloadInterval)
	}
	return nil
}

// certificateKind says what a certificate is of, in errors and metrics.
type certificateKind struct {
	certSetting, keySetting string
	// notAfter returns the metric of when it expires.
	notAfter func(func() float64) prometheus.Collector
}

var (
	publicCertificate = certificateKind{"SERVICE_TLS_CERT_FILE", "SERVICE_TLS_KEY_FILE", func(seconds func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mediastack_tls_certificate_not_after_timestamp_seconds", Help: "Time at which the TLS certificate in use expires, in seconds since 1970. With `SERVICE_TLS_CERT_FILE` only.",
		}, seconds)
	}}
	adminCertificate = certificateKind{"SERVICE_ADMIN_TLS_CERT_FILE", "SERVICE_ADMIN_TLS_KEY_FILE", func(seconds func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mediastack_admin_tls_certificate_not_after_timestamp_seconds", Help: "Time at which the TLS certificate of the admin port expires, in seconds since 1970. With `SERVICE_ADMIN_TLS_CERT_FILE` only.",
		}, seconds)
	}}
)

// certificate is the certificate of a server. It follows its files, which the kubelet or a
// user replaces at any time: new connections get the newest pair that is valid, open ones continue.
// The files are read at an interval and compared, because a mounted Secret is replaced by renaming a
// link above them, which a watch of the files does not see.
type certificate struct {
	kind    certificateKind
	cfg     TLSConfig
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]
	// The contents of the files that current was made of. Only the goroutine of run uses them.
	certPEM, keyPEM []byte
}

// loadCertificate reads the files.
func loadCertificate(kind certificateKind, cfg TLSConfig, registry prometheus.Registerer, log *slog.Logger) (*certificate, error) {
	c := &certificate{kind: kind, cfg: cfg, log: log}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	return c, register(registry, kind.notAfter(func() float64 { return float64(c.current.Load().Leaf.NotAfter.Unix()) }))
}

// config returns the TLS configuration of a server.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // see Server.httpServer
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// run reads the files again at each tick, until ctx ends.
func (c *certificate) run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.ReloadInterval)
	defer ticker.Stop()
	logged := "" // an error is logged once, not at every tick
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := c.reload()
		switch {
		case err == nil:
			logged = ""
			if changed {
				c.log.InfoContext(ctx, "TLS certificate reloaded", "setting", c.kind.certSetting, "not_after", c.current.Load().Leaf.NotAfter)
			}
		case err.Error() != logged:
			logged = err.Error()
			c.log.ErrorContext(ctx, "the new TLS certificate cannot be used; the previous one stays in use", "setting", c.kind.certSetting, "error", err, "not_after", c.current.Load().Leaf.NotAfter)
		}
	}
}

// reload reads the files, and reports whether the certificate changed. After an error the previous
// one stays.
func (c *certificate) reload() (changed bool, err error) {
	certPEM, err := os.ReadFile(c.cfg.CertFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.kind.certSetting, err)
	}
	keyPEM, err := os.ReadFile(c.cfg.KeyFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.kind.keySetting, err)
	}
	if bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return false, nil
	}
	if !complete(certPEM) {
		return false, fmt.Errorf("%s: %s has an incomplete PEM block", c.kind.certSetting, c.cfg.CertFile)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM) // also compares the key with the certificate
	if err != nil {
		return false, fmt.Errorf("the certificate in %s and the key in %s cannot be used: %w", c.cfg.CertFile, c.cfg.KeyFile, err)
	}
	c.current.Store(&pair)
	c.certPEM, c.keyPEM = certPEM, keyPEM
	return true, nil
}

// complete reports whether every PEM block that begins in text also ends: the chain of a file that
// is being written may lack certificates.
func complete(text []byte) bool {
	begun := bytes.Count(text, []byte("-----BEGIN "))
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return begun == 0
		}
		begun--
		text = rest
	}
}
