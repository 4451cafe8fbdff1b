package scanner

import (
	"context"
	"errors"
	"net/http"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/preflight"
)

// preflightPart is the part of the report on the scanners.
const preflightPart = "scanner"

// Preflight reports whether the scanners of the installation answer. Each URL is asked on its own.
func Preflight(ctx context.Context, cfg Config, report *preflight.Report) {
	scanners, err := cfg.Scanners()
	if err != nil {
		report.Missing(preflightPart, "%v", err)
		return
	}
	if clamd := scanners[account.ScannerClamd]; clamd != nil {
		if err := clamd.Ping(ctx); err != nil {
			report.Missing(preflightPart, "%v: check SERVICE_CLAMD_ADDRESS, and networkPolicy.gate of the chart", err)
		} else {
			report.Works(preflightPart, "clamd answers")
		}
	}
	for n, text := range cfg.URLs { // a URL may have a password, so its number is in the report
		if _, err := newHTTP([]string{text}, cfg.Idle).Scan(ctx, http.NoBody, 0); err != nil && !errors.Is(err, gate.ErrFile) {
			report.Missing(preflightPart, "URL %d of SERVICE_GATE_URLS: %v: check it, and networkPolicy.gate of the chart", n+1, err)
			continue
		}
		report.Works(preflightPart, "URL %d of SERVICE_GATE_URLS answers", n+1)
	}
}
