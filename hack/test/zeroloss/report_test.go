package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/hack/test/zeroloss/tenant"
)

func TestDecision_IsAboutPlannedFailuresAndMissingBytes(t *testing.T) {
	t.Parallel()
	loss := &loss{node: "node1", at: time.Now(), placed: map[string]int{"node2": 1, "node1": 1}, led: 48 * time.Second}
	failedAfter := func(after time.Duration) tenant.Result {
		return tenant.Result{Failed: 2, FailedBegan: []time.Time{loss.at.Add(after), loss.at.Add(time.Second)}}
	}
	for name, c := range map[string]struct {
		report report
		broken string
	}{
		"nothing failed":                                 {report: report{rows: []row{{planned: true, Result: tenant.Result{Sent: 5, Retried: 2, Waited: 1}}}}},
		"an unplanned operation failed":                  {report: report{rows: []row{{Result: tenant.Result{Failed: 3}}}}},
		"a planned operation failed":                     {report: report{rows: []row{{name: "drain", planned: true, Result: tenant.Result{Failed: 1}}}}, broken: "drain: clients saw 1"},
		"a request between failed":                       {report: report{rest: tenant.Result{Failed: 1}}, broken: "between the operations: clients saw 1"},
		"a byte is missing":                              {report: report{rows: []row{{name: "kill", Result: tenant.Result{Missing: 1, MissingBytes: 7}}}}, broken: "kill: 1 acknowledged items (7 bytes)"},
		"a request failed soon after the loss of a node": {report: report{rows: []row{{within: 5 * time.Second, lost: loss, Result: failedAfter(5 * time.Second)}}}},
		"a request failed later":                         {report: report{rows: []row{{name: "loss", within: 5 * time.Second, lost: loss, Result: failedAfter(6 * time.Second)}}}, broken: "loss: requests failed for more than 5s: ready replicas before: 1 on node1, 1 on node2; node1 was lost; the Service led to other nodes alone after 48.0 s; 2 requests failed: 0 of them began later than that, the last one 6.0 s after the loss"},
		"it may fail at any time":                        {report: report{rows: []row{{lost: loss, Result: failedAfter(time.Minute)}}}},
		"the list contradicts":                           {report: report{problems: []string{"the list lacks one"}}, broken: "in 1 cases"},
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

func TestLoss_IsThatOfTheNodeWithMostReplicas(t *testing.T) {
	t.Parallel()
	for want, placed := range map[string]map[string]int{
		"node2": {"node1": 0, "node2": 2},
		"node1": {"node1": 1, "node2": 1},
	} {
		if got := fullest(placed); got != want {
			t.Errorf("of %v the node %q is lost, want %q", placed, got, want)
		}
	}
}

// The client of a lost node still knows what was acknowledged to it, but its requests failed with the node.
func TestLoss_OfAClientCountsWhatIsMissingOnly(t *testing.T) {
	t.Parallel()
	sum := tenant.Result{Sent: 3, Retried: 1, LongestPause: time.Second, Verified: 2}
	sum.Add(tenant.Result{Sent: 9, Failed: 8, Failures: []string{"no answer"}, LongestPause: time.Minute, FailedBegan: []time.Time{time.Now()}, Verified: 4, Missing: 1, MissingBytes: 7, Problems: []string{"lacks one"}}.Compared())
	if diff := cmp.Diff(tenant.Result{Sent: 3, Retried: 1, LongestPause: time.Second, Verified: 6, Missing: 1, MissingBytes: 7, Problems: []string{"lacks one"}}, sum); diff != "" {
		t.Errorf("the sum (-want +got):\n%s", diff)
	}
}
