package mediaaccount

import (
	"errors"

	"mediastack.dev/controllers/status"
)

// part is what a step saw of its part of the account.
type part struct {
	done    bool
	message string // what is there, when done
	failure *status.Failure
}

// observed is what the steps saw, and all that the conditions are made of.
type observed struct {
	suspended bool
	account   part
	bucket    part
	apps      part
	keys      part
	usage     *status.Failure
	removal   *removal // nil unless the object is being deleted
}

// removal is how far a deletion is.
type removal struct {
	progress string
	failure  *status.Failure
}

// failures returns what went wrong, the part that others stand on first.
func (o observed) failures() []*status.Failure {
	if o.removal != nil {
		return []*status.Failure{o.removal.failure}
	}
	return []*status.Failure{o.account.failure, o.bucket.failure, o.apps.failure, o.keys.failure, o.usage}
}

// handled reports whether this generation has been dealt with: all of it is done, or
// what is not done waits for somebody else's change.
func (o observed) handled() bool {
	if o.removal != nil || o.retry() != nil {
		return false
	}
	if o.account.failure.Stalls() {
		return true
	}
	for _, part := range []part{o.account, o.bucket, o.apps, o.keys} {
		if !part.done && !part.failure.Stalls() {
			return false
		}
	}
	return true
}

// retry joins the errors that may pass by themselves; nil when there is none.
func (o observed) retry() error {
	var errs []error
	for _, failure := range o.failures() {
		if failure.Retries() {
			errs = append(errs, failure.Err)
		}
	}
	return errors.Join(errs...)
}
