package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

const tlsHost = "media.example.org"

// pair are the files of a certificate.
type pair struct {
	TLSConfig
	roots *x509.CertPool // trusts every certificate that was written
}

func newPair(t *testing.T, notAfter time.Time) *pair {
	t.Helper()
	dir := t.TempDir()
	p := &pair{TLSConfig{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), ReloadInterval: minReloadInterval}, x509.NewCertPool()}
	p.write(t, notAfter)
	return p
}

// write replaces the files by those of a new certificate.
func (p *pair) write(t *testing.T, notAfter time.Time) {
	t.Helper()
	certificate, key := testenv.Certificate(t, tlsHost, notAfter)
	p.roots.AppendCertsFromPEM(certificate)
	must(t, os.WriteFile(p.CertFile, certificate, 0o600))
	must(t, os.WriteFile(p.KeyFile, key, 0o600))
}

// overTLS encrypts a connection.
func (p *pair) overTLS(t *testing.T, c *client) *client {
	t.Helper()
	conn := tls.Client(c.Conn, &tls.Config{RootCAs: p.roots, ServerName: tlsHost, NextProtos: []string{"h2", "http/1.1"}})
	return &client{Conn: conn, in: bufio.NewReader(conn)}
}

func withTLS(p *pair) Config {
	cfg := valid()
	cfg.TLS = p.TLSConfig
	return cfg
}

var distant = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTLS_ServesHTTP1WithTLS12OrLater(t *testing.T) {
	t.Parallel()
	p := newPair(t, distant)
	s := start(t, withTLS(p), rejecting)
	c := p.overTLS(t, dial(t, s.Addr()))
	c.send(t, quick)
	if got := c.answer(t, http.MethodGet); got.status != http.StatusOK {
		t.Errorf("status %d", got.status)
	}
	if state := c.Conn.(*tls.Conn).ConnectionState(); state.NegotiatedProtocol != "http/1.1" { //nolint:forcetypeassert // of overTLS
		t.Errorf("the protocol is %q", state.NegotiatedProtocol)
	}
	for name, cfg := range map[string]*tls.Config{
		"TLS 1.1": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"HTTP/2":  {NextProtos: []string{"h2"}},
	} {
		cfg.RootCAs, cfg.ServerName = p.roots, tlsHost
		if err := tls.Client(dial(t, s.Addr()), cfg).HandshakeContext(t.Context()); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	plain := dial(t, s.Addr())
	plain.send(t, quick)
	if got := plain.answer(t, http.MethodGet); got.status != http.StatusBadRequest {
		t.Errorf("HTTP is answered with %d", got.status)
	}
}

// What is bounded without TLS is bounded with it: the bounds look below the encryption.
func TestTLS_KeepsTheBoundsOfConnections(t *testing.T) {
	t.Parallel()
	p := newPair(t, distant)
	cfg := withTLS(p)
	cfg.MaxConnections = minConnections
	cfg.DiscardLimit, cfg.DiscardTimeout = 16<<20, maxDiscardTimeout
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, cfg, func(r chi.Router) {
		rejecting(r)
		r.Get("/slow", func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-release })
	})
	defer close(release)

	last := p.overTLS(t, dial(t, s.Addr()))
	body := bytes.Repeat([]byte("x"), 12<<20)
	_, err := fmt.Fprintf(last, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	must(t, err)
	if got := last.answer(t, http.MethodPost); got.status != http.StatusUnauthorized || !got.closes {
		t.Errorf("a client that reads last gets %+v", got)
	}
	must(t, last.Close())

	idle := p.overTLS(t, dial(t, s.Addr()))
	idle.send(t, quick)
	idle.answer(t, http.MethodGet)
	for range minConnections {
		c := p.overTLS(t, dial(t, s.Addr()))
		c.send(t, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
		wait.Receive(t, "the request starts", entered)
	}
	if text := idle.ends(t); text != "" {
		t.Errorf("an idle connection got %q", text)
	}
	over := p.overTLS(t, dial(t, s.Addr()))
	over.send(t, quick)
	if got := over.answer(t, http.MethodGet); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("over the bound: %+v", got)
	}
}

// served returns when the certificate that new connections get expires.
func (p *pair) served(t *testing.T, s *Server) time.Time {
	t.Helper()
	c := p.overTLS(t, dial(t, s.Addr()))
	c.send(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if got := c.answer(t, http.MethodGet); got.status != http.StatusOK {
		t.Fatalf("status %d", got.status)
	}
	return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter //nolint:forcetypeassert // of overTLS
}

func TestCertificate_IsReplacedWhileConnectionsContinue(t *testing.T) {
	t.Parallel()
	p := newPair(t, distant)
	s := start(t, withTLS(p), rejecting)
	open := p.overTLS(t, dial(t, s.Addr()))
	open.send(t, quick)
	open.answer(t, http.MethodGet)
	later := distant.AddDate(1, 0, 0)
	p.write(t, later)
	wait.Until(t, "new connections get the new certificate", func() bool { return p.served(t, s).Equal(later) })
	if !hasMetric(t, s, fmt.Sprintf("mediastack_tls_certificate_not_after_timestamp_seconds %v", float64(later.Unix()))) {
		t.Error("the metric has another expiry")
	}
	open.send(t, quick)
	if got := open.answer(t, http.MethodGet); got.status != http.StatusOK {
		t.Errorf("an open connection gets %d", got.status)
	}
}

func TestCertificate_StaysUntilTheNewOneIsValid(t *testing.T) {
	t.Parallel()
	p := newPair(t, distant)
	var logs bytes.Buffer
	loaded, err := loadCertificate(publicCertificate, p.TLSConfig, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&logs, nil)))
	must(t, err)
	first := loaded.current.Load()
	certificate, key := testenv.Certificate(t, tlsHost, distant)
	second, _ := testenv.Certificate(t, tlsHost, distant)
	for name, broken := range map[string]struct{ certificate, key []byte }{
		"the key of another certificate": {second, key},
		"half a key":                     {certificate, key[:len(key)/2]},
		"half a certificate":             {certificate[:len(certificate)/2], key},
		"half a chain":                   {append(bytes.Clone(certificate), second[:len(second)/2]...), key},
		"empty files":                    {nil, nil},
	} {
		must(t, os.WriteFile(p.CertFile, broken.certificate, 0o600))
		must(t, os.WriteFile(p.KeyFile, broken.key, 0o600))
		if changed, err := loaded.reload(); changed || err == nil || loaded.current.Load() != first {
			t.Errorf("%s: changed %v, %v", name, changed, err)
		}
	}
	must(t, os.Remove(p.KeyFile))
	if _, err := loaded.reload(); err == nil || !strings.Contains(err.Error(), "SERVICE_TLS_KEY_FILE: ") || loaded.current.Load() != first {
		t.Errorf("without a key: %v", err)
	}
	p.write(t, distant)
	if changed, err := loaded.reload(); !changed || err != nil || loaded.current.Load() == first {
		t.Errorf("a valid pair: changed %v, %v", changed, err)
	}
}

func TestTLSConfig_IsRejected(t *testing.T) {
	t.Parallel()
	p := newPair(t, distant)
	for want, change := range map[string]func(*Config){
		"must be set together":           func(c *Config) { c.TLS.KeyFile = "" },
		"SERVICE_TLS_RELOAD_INTERVAL":    func(c *Config) { c.TLS.ReloadInterval = time.Millisecond },
		"must begin with https://":       func(c *Config) { c.BaseURL = "http://media.example.org" },
		"SERVICE_TLS_CERT_FILE: open /n": func(c *Config) { c.TLS.CertFile = "/nowhere" },
		"has an incomplete PEM block":    func(c *Config) { c.TLS.CertFile = incomplete(t) },
	} {
		cfg := withTLS(p)
		change(&cfg)
		if _, err := New(cfg, Deps{Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func incomplete(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tls.crt")
	must(t, os.WriteFile(path, []byte("-----BEGIN CERTIFICATE-----\nAAAA"), 0o600))
	return path
}
