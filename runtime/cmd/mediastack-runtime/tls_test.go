package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/metricsdoc"
	testwait "mediastack.dev/hack/testenv/wait"
)

// secretMount is a folder like that of a mounted Secret: its files are links into a folder that is
// replaced as a whole.
type secretMount struct {
	dir   string
	count int
}

// replace mounts a new certificate.
func (m *secretMount) replace(t *testing.T, notAfter time.Time) {
	t.Helper()
	certificate, key := testenv.Certificate(t, "media.test", notAfter)
	m.count++
	data := fmt.Sprintf("..data_%d", m.count)
	must(t, os.Mkdir(filepath.Join(m.dir, data), 0o700))
	must(t, os.WriteFile(filepath.Join(m.dir, data, "tls.crt"), certificate, 0o600))
	must(t, os.WriteFile(filepath.Join(m.dir, data, "tls.key"), key, 0o600))
	must(t, os.WriteFile(filepath.Join(m.dir, "ca.crt"), certificate, 0o600))
	must(t, os.Symlink(data, filepath.Join(m.dir, "..new")))
	must(t, os.Rename(filepath.Join(m.dir, "..new"), filepath.Join(m.dir, "..data")))
	if m.count == 1 {
		must(t, os.Symlink("..data/tls.crt", filepath.Join(m.dir, "tls.crt")))
		must(t, os.Symlink("..data/tls.key", filepath.Join(m.dir, "tls.key")))
	}
}

const (
	certificateExpiry = "mediastack_tls_certificate_not_after_timestamp_seconds"
	rotations         = 5
)

// Requests on new and on open connections succeed while the certificate is replaced, and helm test
// verifies it for the host of the base URL.
func TestServe_RotatesItsCertificateWithoutLosingARequest(t *testing.T) {
	t.Parallel()
	mount := &secretMount{dir: t.TempDir()}
	first := time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
	mount.replace(t, first)
	s := whole(t, "--base-url=https://media.test", "--tls-cert-file="+filepath.Join(mount.dir, "tls.crt"), "--tls-key-file="+filepath.Join(mount.dir, "tls.key"), "--tls-reload-interval=100ms", "--rate-limit-ip=0")

	seen := make(chan time.Time, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients errgroup.Group
	for _, reconnects := range []bool{false, true, true} {
		clients.Go(func() error { return s.requests(ctx, reconnects, seen) })
	}
	for years := range rotations {
		expiry := first.AddDate(years+1, 0, 0)
		mount.replace(t, expiry)
		testwait.Until(t, "new connections get the new certificate", func() bool { return (<-seen).Equal(expiry) })
	}
	stop()
	must(t, clients.Wait())
	metrics := s.metrics(t)
	metricsdoc.Compare(t, map[string]string{certificateExpiry: metricsdoc.Documented(t, "Runtime")[certificateExpiry]}, map[string]*dto.MetricFamily{certificateExpiry: metrics[certificateExpiry]})
	if got := metricValue(metrics, certificateExpiry); got != float64(first.AddDate(rotations, 0, 0).Unix()) {
		t.Errorf("%s is %v", certificateExpiry, got)
	}
	if got := attribute(s.logs.String(), "TLS certificate reloaded", "not_after"); got == "" {
		t.Error("the log does not say that the certificate was reloaded")
	}

	// The preflight takes authorities from the environment of its process.
	for host, want := range map[string]string{"media.test": "the service answers at https://" + s.address, "other.test": "certificate is valid for media.test, not other.test"} {
		cmd := exec.CommandContext(t.Context(), testenv.Binary(t, "mediastack-runtime"), append([]string{"preflight", "--base-url=https://" + host, "--secret=" + goodSecret, "--service-url=https://" + s.address}, s.stores...)...)
		cmd.Env = append(cmd.Environ(), "SSL_CERT_FILE="+filepath.Join(mount.dir, "ca.crt"))
		if out, _ := cmd.Output(); !strings.Contains(string(out), want) {
			t.Errorf("preflight of %s lacks %q:\n%s", host, want, out)
		}
	}
}

// requests sends requests until ctx ends, and returns the error of the first that fails. Each sends
// when its certificate expires, if it reconnects.
func (s *service) requests(ctx context.Context, reconnects bool, seen chan<- time.Time) error {
	transport := &http.Transport{
		DisableKeepAlives: reconnects,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // each certificate signs itself; the test compares them
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "https://media.test/openapi.json", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			return errors.Join(errors.New(response.Status), err)
		}
		if !reconnects {
			continue
		}
		select {
		case seen <- response.TLS.PeerCertificates[0].NotAfter:
		case <-ctx.Done():
		}
	}
	return nil
}

func TestServe_NeedsItsCertificate(t *testing.T) {
	t.Parallel()
	code, _, text := call(t.Context(), append([]string{"serve", "--base-url=https://media.test", "--secret=" + goodSecret, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--image-enabled=false",
		"--tls-cert-file=/nowhere/tls.crt", "--tls-key-file=/nowhere/tls.key"}, storesOf(testenv.Postgres(t), testenv.S3(t))...)...)
	if code != exitFailed || !strings.Contains(text, "SERVICE_TLS_CERT_FILE: open /nowhere/tls.crt: no such file or directory") {
		t.Errorf("%d %s", code, text)
	}
}
