package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
)

const (
	// minMetricsToken is the least length of a token.
	minMetricsToken = 16
	// maxMetricsTokens bounds the file: more than the current and the next token are a mistake.
	maxMetricsTokens = 8
)

// AdminTLSConfig configures HTTPS on the admin port, and who reads the metrics there. The runtime has no
// credential of Kubernetes, so it cannot ask the API server whose token a client has: it compares the token
// with those of a file.
type AdminTLSConfig struct {
	CertFile  string `env:"SERVICE_ADMIN_TLS_CERT_FILE" help:"PEM file of the certificate and its chain for SERVICE_ADMIN_LISTEN, which then takes HTTPS only. It is read again as SERVICE_TLS_CERT_FILE is."`
	KeyFile   string `env:"SERVICE_ADMIN_TLS_KEY_FILE" help:"PEM file of the private key of SERVICE_ADMIN_TLS_CERT_FILE."`
	TokenFile string `name:"metrics-token-file" env:"SERVICE_METRICS_TOKEN_FILE" help:"File with the bearer tokens, one a line, of which /metrics and the profiles then demand one. It is read at each request. It needs SERVICE_ADMIN_TLS_CERT_FILE."`
}

// Validate checks that the settings fit each other.
func (c AdminTLSConfig) Validate() error {
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("SERVICE_ADMIN_TLS_CERT_FILE and SERVICE_ADMIN_TLS_KEY_FILE must be set together")
	case c.TokenFile != "" && c.CertFile == "":
		return errors.New("SERVICE_METRICS_TOKEN_FILE needs SERVICE_ADMIN_TLS_CERT_FILE: without TLS the token would be readable on its way")
	}
	return nil
}

// metricsTokens returns the hashes of the tokens of a file. No error has a part of its contents.
func metricsTokens(path string) (hashes [][sha256.Size]byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("SERVICE_METRICS_TOKEN_FILE: %w", err)
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case len(line) < minMetricsToken:
			return nil, fmt.Errorf("SERVICE_METRICS_TOKEN_FILE: a token in %s has less than %d characters", path, minMetricsToken)
		case bytes.ContainsAny(line, " \t"):
			return nil, fmt.Errorf("SERVICE_METRICS_TOKEN_FILE: a line of %s has spaces; each line is one token", path)
		}
		hashes = append(hashes, sha256.Sum256(line))
	}
	switch {
	case len(hashes) == 0:
		return nil, fmt.Errorf("SERVICE_METRICS_TOKEN_FILE: %s has no token", path)
	case len(hashes) > maxMetricsTokens:
		return nil, fmt.Errorf("SERVICE_METRICS_TOKEN_FILE: %s has more than %d tokens", path, maxMetricsTokens)
	}
	return hashes, nil
}

// withToken lets requests with a token of the file pass. The file is read each time, because the kubelet
// replaces that of a mounted Secret, and a scrape comes a few times a minute.
func withToken(path string, log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hashes, err := metricsTokens(path)
			if err != nil {
				log.ErrorContext(r.Context(), "the tokens of the metrics cannot be used", "error", err)
				http.Error(w, "the tokens of the metrics cannot be used; the log says why", http.StatusServiceUnavailable)
				return
			}
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			sent, valid := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
			for _, hash := range hashes {
				valid |= subtle.ConstantTimeCompare(sent[:], hash[:])
			}
			if valid == 0 || !strings.EqualFold(scheme, "Bearer") {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "a bearer token of the metrics is required", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
