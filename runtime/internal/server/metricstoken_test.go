package server

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAdminTLS_DemandsATokenForMetricsOnly(t *testing.T) {
	t.Parallel()
	p := newPair(t, distant)
	file, token := filepath.Join(t.TempDir(), "token"), strings.Repeat("a", minMetricsToken)
	must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	cfg := valid()
	cfg.Pprof = true
	cfg.TLS.ReloadInterval = minReloadInterval
	cfg.AdminTLS = AdminTLSConfig{CertFile: p.CertFile, KeyFile: p.KeyFile, TokenFile: file}
	s := start(t, cfg, rejecting)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.roots, ServerName: tlsHost, MinVersion: tls.VersionTLS12}}}
	for _, c := range []struct {
		path, authorization string
		want                int
	}{
		{"/healthz", "", http.StatusOK},
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "Bearer " + token + "b", http.StatusUnauthorized},
		{"/metrics", "Basic " + token, http.StatusUnauthorized},
		{"/metrics", "Bearer " + token, http.StatusOK},
		{"/debug/pprof/", "", http.StatusUnauthorized},
		{"/debug/pprof/", "bearer " + token, http.StatusOK},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.AdminAddr()+c.path, nil)
		must(t, err)
		request.Header.Set("Authorization", c.authorization)
		response, err := client.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.authorization, response.StatusCode, c.want)
		}
	}
}

func TestAdminTLS_IsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, strings.Map(func(r rune) rune { return 'a' + r%26 }, text)+"x")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, file := range map[string]string{
		"has no token":                  write("\n \n"),
		"less than 16 characters":       write("short-secret"),
		"each line is one token":        write("two words that are long"),
		"more than 8 tokens":            write(strings.Repeat("aaaaaaaaaaaaaaaaaa\n", maxMetricsTokens+1)),
		"SERVICE_METRICS_TOKEN_FILE: o": filepath.Join(dir, "nowhere"),
	} {
		_, err := metricsTokens(file)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short-secret") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, c := range map[string]AdminTLSConfig{
		"must be set together":              {CertFile: "a"},
		"needs SERVICE_ADMIN_TLS_CERT_FILE": {TokenFile: "a"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
