package mediaaccount

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/controllers/reconcile"
)

// stepResult is the result of a step.
type stepResult struct {
	ready   bool
	message string // the condition's message, when ready
	reason  string // the condition's reason, when ready; empty = Succeeded
	failure *reconcile.StepError
}

// observed are the results of the steps. The conditions are computed from them only.
type observed struct {
	suspended bool
	account   stepResult
	bucket    stepResult
	apps      stepResult
	keys      stepResult
	runtime   *reconcile.StepError // no replica of the runtime serves
	storage   []metav1.Condition   // StorageAvailable, if the usage was measured
	deletion  *deletionProgress    // nil unless the object is being deleted
}

// failures returns the errors of all steps, that of the account first, since the other
// steps depend on it.
func (o observed) failures() []*reconcile.StepError {
	if o.deletion != nil {
		return []*reconcile.StepError{o.deletion.failure}
	}
	return []*reconcile.StepError{o.account.failure, o.bucket.failure, o.apps.failure, o.keys.failure, o.runtime}
}

// generationObserved reports whether this generation was handled: the account is Ready, or
// Stalled until a user acts.
func (o observed) generationObserved() bool {
	summary := summarize(o)
	return o.deletion == nil && (summary.Ready || summary.Stalled)
}
