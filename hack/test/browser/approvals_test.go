package browser_test

import "testing"

// approver owns the account in which assistants have to ask.
const approver = "ida.stern@example.org"

func TestApprovals_WorkInTheBrowser(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).runScript(t, "approvals.mjs", map[string]any{"scratch": scratch, "owner": approver})
	document(t, scratch, "approval.png", "hand-over.png")
}
