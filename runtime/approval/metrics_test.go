package approval_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/runtimetest"
)

func TestMetrics_CountRequestsAndChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	ask := func(name string, allow bool, before func(item string)) {
		t.Helper()
		item := w.sealed(t, tenant, name)
		q := w.asked(t, by, "delete_media", object{"mediaId": item})
		before(item)
		must(t, w.tools.Approvals.Decide(t.Context(), approval.Decision{ID: uuid.MustParse(q.ApprovalID), AccountID: tenant.Account.ID, Revision: 1, Allow: allow, By: runtimetest.Owner}))
		w.carryOut(t, q)
	}
	ask("a.txt", true, func(string) {})
	ask("b.txt", true, func(item string) { w.Exec(t, `UPDATE item SET version = version + 1 WHERE id = '`+item+`'`) })
	ask("c.txt", false, func(string) {})
	if err := testutil.GatherAndCompare(w.tools.Registry, strings.NewReader(`
# HELP mediastack_approval_changes_total Changes that an owner has allowed, by outcome: `+"`done`, `outdated` (the item was changed or deleted since), `failed`"+`.
# TYPE mediastack_approval_changes_total counter
mediastack_approval_changes_total{outcome="done"} 1
mediastack_approval_changes_total{outcome="failed"} 0
mediastack_approval_changes_total{outcome="outdated"} 1
# HELP mediastack_approval_requests_total Calls that wait for an owner (`+"`asked`), and decisions of owners (`allowed`, `denied`)"+`, by outcome. Several calls may wait for one decision.
# TYPE mediastack_approval_requests_total counter
mediastack_approval_requests_total{outcome="allowed"} 2
mediastack_approval_requests_total{outcome="asked"} 3
mediastack_approval_requests_total{outcome="denied"} 1
`), "mediastack_approval_requests_total", "mediastack_approval_changes_total"); err != nil {
		t.Error(err)
	}
}
