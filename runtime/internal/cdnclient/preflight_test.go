package cdnclient_test

import (
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/cdnclient"
	"mediastack.dev/runtime/preflight"
)

func TestPreflight_SaysWhetherPurgesAreTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, purger string
		status       int
		outcome      preflight.Outcome
		text         string
	}{
		{"a CDN that takes them", "fastly", http.StatusOK, preflight.Works, "takes purges (fastly)"},
		{"another key", "fastly", http.StatusForbidden, preflight.Missing, "answered 403 (Forbidden): check SERVICE_CDN_PURGE_URL"},
		{"no CDN", "", http.StatusOK, "", ""},
	} {
		cfg := config(c.purger)
		if c.purger != "" {
			cfg.URLs = []string{answering(t, c.status, "{}").URL + secretPath}
		}
		report := &preflight.Report{}
		cdnclient.Preflight(t.Context(), cfg, report)
		switch {
		case c.outcome == "" && len(report.Findings) == 0:
		case len(report.Findings) == 1 && report.Findings[0].Outcome == c.outcome && strings.Contains(report.Findings[0].Text, c.text) && !strings.Contains(report.Findings[0].Text, secretPath):
		default:
			t.Errorf("%s: %+v", c.name, report.Findings)
		}
	}
}
