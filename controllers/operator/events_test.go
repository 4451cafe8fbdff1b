package operator_test

import (
	"testing"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

// A new account caused five events: half of all writes of its creation.
func TestEvents_NewAccountRecordsOne(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object, pins := b.account("demo"), b.settings("site", "demo")
	b.ready(object)
	b.ready(pins)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.ready(object)
	wait.UntilNone(b.t, func() string {
		reasons := map[string]int{}
		for _, event := range b.events() {
			reasons[event.Reason]++
		}
		if len(reasons) > 2 || reasons[v1alpha1.ReasonSucceeded] > 1 || reasons["KeyRotated"] > 1 {
			t.Fatalf("the events of a new account, its settings and a rotation are %v", reasons)
		}
		if len(reasons) < 2 {
			return "the events of the account and of the rotation are not there yet"
		}
		return ""
	})
}
