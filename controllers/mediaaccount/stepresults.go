package mediaaccount

import (
	"errors"

	"mediastack.dev/controllers/reconcile"
)

// stepResult is the result of a step.
type stepResult struct {
	ready   bool
	message string // the condition's message, when ready
	failure *reconcile.StepError
}

// observed are the results of the steps. The conditions are computed from them only.
type observed struct {
	suspended bool
	account   stepResult
	bucket    stepResult
	apps      stepResult
	keys      stepResult
	usage     *reconcile.StepError
	deletion  *deletionProgress // nil unless the object is being deleted
}

// failures returns the errors of all steps, that of the account first, since the other
// steps depend on it.
func (o observed) failures() []*reconcile.StepError {
	if o.deletion != nil {
		return []*reconcile.StepError{o.deletion.failure}
	}
	return []*reconcile.StepError{o.account.failure, o.bucket.failure, o.apps.failure, o.keys.failure, o.usage}
}

// generationObserved reports whether this generation was handled: every part is ready, or
// requires a change by a user.
func (o observed) generationObserved() bool {
	if o.deletion != nil || o.retry() != nil {
		return false
	}
	if o.account.failure.Stalls() {
		return true
	}
	for _, result := range []stepResult{o.account, o.bucket, o.apps, o.keys} {
		if !result.ready && !result.failure.Stalls() {
			return false
		}
	}
	return true
}

// retry returns the errors that a retry may resolve, joined; nil when there is none.
func (o observed) retry() error {
	var errs []error
	for _, failure := range o.failures() {
		if failure.Retries() {
			errs = append(errs, failure.Err)
		}
	}
	return errors.Join(errs...)
}
