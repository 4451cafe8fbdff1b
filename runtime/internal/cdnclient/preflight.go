package cdnclient

import (
	"context"

	"mediastack.dev/runtime/preflight"
)

const (
	// preflightPart is the part of the report on the CDN.
	preflightPart = "cdn"
	// preflightTag is what a preflight purges. No file has it.
	preflightTag = "preflight"
)

// Preflight reports whether the CDN takes purges, if there is one: it purges a tag that no file has.
func Preflight(ctx context.Context, cfg Config, report *preflight.Report) {
	if !cfg.Enabled() {
		return
	}
	client, err := New(cfg, Deps{})
	if err == nil {
		err = client.Purge(ctx, []string{preflightTag})
	}
	if err != nil {
		report.Missing(preflightPart, "%v: check SERVICE_CDN_PURGE_URL, SERVICE_CDN_PURGE_KEY, and networkPolicy.cdn of the chart", err)
		return
	}
	report.Works(preflightPart, "the CDN takes purges (%s)", cfg.Purger)
}
