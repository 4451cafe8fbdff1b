package mediaaccount

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
)

// conditions turns what the steps saw into every condition of a MediaAccount.
func conditions(seen observed) []metav1.Condition {
	return append(verdict(seen).Conditions(),
		seen.bucket.condition(v1alpha1.ConditionBucketReady, seen),
		seen.apps.condition(v1alpha1.ConditionAppsReady, seen),
		seen.keys.condition(v1alpha1.ConditionKeysReady, seen),
	)
}

// verdict sums the steps up. A usage that can't be measured keeps no account from
// being Ready: nothing of the account is missing.
func verdict(seen observed) status.Verdict {
	if seen.removal != nil {
		if failed, ok := status.Failed(seen.removal.failure); ok {
			return failed
		}
		return status.Working(v1alpha1.ReasonDeleting, seen.removal.progress)
	}
	if failed, ok := status.Failed(seen.account.failure, seen.bucket.failure, seen.apps.failure, seen.keys.failure); ok {
		return failed
	}
	for _, part := range []part{seen.account, seen.bucket, seen.apps, seen.keys} {
		if !part.done {
			return status.Working(v1alpha1.ReasonProgressing, "The account is being provisioned")
		}
	}
	done := status.Done(v1alpha1.ReasonSucceeded, "The account is ready for use")
	if seen.suspended {
		done = status.Done(v1alpha1.ReasonSuspended, "The account is suspended: everything is kept, nothing is served")
	}
	done.Working = seen.usage.Retries()
	return done
}

// condition reports one part: False when somebody has to act, Unknown when it could
// not be looked at, because its store is out of reach or the account itself failed.
func (p part) condition(kind string, seen observed) metav1.Condition {
	switch {
	case seen.removal != nil:
		return status.Condition(kind, false, v1alpha1.ReasonDeleting, "The account is being deleted")
	case p.failure.Stalls():
		return status.Condition(kind, false, p.failure.Reason(), p.failure.Message())
	case p.failure != nil:
		return status.Unknown(kind, p.failure.Reason(), p.failure.Message())
	case p.done:
		return status.Condition(kind, true, v1alpha1.ReasonSucceeded, p.message)
	case seen.account.failure != nil:
		return status.Unknown(kind, seen.account.failure.Reason(), seen.account.failure.Message())
	}
	return status.Unknown(kind, v1alpha1.ReasonProgressing, "Not looked at yet")
}
