package mediaaccount

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// conditions computes every condition of a MediaAccount from the results of the steps.
func conditions(seen observed) []metav1.Condition {
	return append(summarize(seen).Conditions(),
		seen.bucket.condition(v1alpha1.ConditionBucketReady, seen),
		seen.apps.condition(v1alpha1.ConditionAppsReady, seen),
		seen.keys.condition(v1alpha1.ConditionKeysReady, seen),
	)
}

// summarize combines the results of the steps. A failure to measure the usage is none of them:
// the account can be used.
func summarize(seen observed) reconcile.Summary {
	if seen.deletion != nil {
		return seen.deletion.summary()
	}
	if failed, ok := reconcile.FromErrors(seen.account.failure, seen.bucket.failure, seen.apps.failure, seen.keys.failure, seen.runtime); ok {
		return failed
	}
	for _, result := range []stepResult{seen.account, seen.bucket, seen.apps, seen.keys} {
		if !result.ready {
			return reconcile.Reconciling(v1alpha1.ReasonProgressing, "Provisioning the account")
		}
	}
	if seen.suspended {
		return reconcile.Ready(v1alpha1.ReasonSuspended, "The account is suspended: its data is kept, requests are denied")
	}
	return reconcile.Ready(v1alpha1.ReasonSucceeded, "The account is ready for use")
}

// condition returns the condition of one part. It is False when a user has to change
// something, and Unknown when the part could not be checked because its store cannot be
// reached or the step of the account failed.
func (r stepResult) condition(kind string, seen observed) metav1.Condition {
	switch {
	case seen.deletion != nil:
		return reconcile.Condition(kind, false, v1alpha1.ReasonDeleting, "The account is being deleted")
	case r.failure.Stalls():
		return reconcile.Condition(kind, false, r.failure.Reason(), r.failure.Message())
	case r.failure != nil:
		return reconcile.UnknownCondition(kind, r.failure.Reason(), r.failure.Message())
	case r.ready:
		return reconcile.Condition(kind, true, cmp.Or(r.reason, v1alpha1.ReasonSucceeded), r.message)
	case seen.account.failure != nil:
		return reconcile.UnknownCondition(kind, seen.account.failure.Reason(), seen.account.failure.Message())
	}
	return reconcile.UnknownCondition(kind, v1alpha1.ReasonProgressing, "Not checked yet")
}
