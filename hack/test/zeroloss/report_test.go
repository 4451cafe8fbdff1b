package main

import (
	"strings"
	"testing"

	"mediastack.dev/hack/test/zeroloss/tenant"
)

func TestDecision_IsAboutPlannedFailuresAndMissingBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report report
		broken string
	}{
		"nothing failed":                {report: report{rows: []row{{planned: true, Result: tenant.Result{Sent: 5, Retried: 2, Waited: 1}}}}},
		"an unplanned operation failed": {report: report{rows: []row{{Result: tenant.Result{Failed: 3}}}}},
		"a planned operation failed":    {report: report{rows: []row{{name: "drain", planned: true, Result: tenant.Result{Failed: 1}}}}, broken: "drain: clients saw 1"},
		"a request between failed":      {report: report{rest: tenant.Result{Failed: 1}}, broken: "between the operations: clients saw 1"},
		"a byte is missing":             {report: report{rows: []row{{name: "kill", Result: tenant.Result{Missing: 1, MissingBytes: 7}}}}, broken: "kill: 1 acknowledged items (7 bytes)"},
		"the list contradicts":          {report: report{problems: []string{"the list lacks one"}}, broken: "in 1 cases"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.report.decision()
			if c.broken == "" && err != nil || c.broken != "" && (err == nil || !strings.Contains(err.Error(), c.broken)) {
				t.Errorf("the decision is %v, want %q", err, c.broken)
			}
		})
	}
}
