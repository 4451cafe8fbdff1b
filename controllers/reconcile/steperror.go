package reconcile

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/fault"
)

// Source is the system that an error comes from.
type Source int

// The systems that the operator calls.
const (
	Database Source = iota
	ObjectStore
	Kubernetes
)

// StepError is the error that a step ended with. The kind of Err decides what follows:
// Conflict and Invalid stall the object, every other kind is retried with backoff.
type StepError struct {
	Source Source
	Err    error
	// Action names the request, such as "read Secret x"; for Kubernetes only.
	Action string
}

// NewError returns a StepError, or nil when err is nil.
func NewError(source Source, err error) *StepError {
	if err == nil {
		return nil
	}
	return &StepError{Source: source, Err: err}
}

// NewAPIError returns the StepError of a request to the Kubernetes API, or nil when err is
// nil. action names the request, such as "read Secret x".
func NewAPIError(err error, action string, args ...any) *StepError {
	if err == nil {
		return nil
	}
	action = fmt.Sprintf(action, args...)
	return &StepError{Source: Kubernetes, Err: fmt.Errorf("%s: %w", action, err), Action: action}
}

// Stalls reports whether a retry cannot succeed before a user changes something.
func (e *StepError) Stalls() bool {
	return e != nil && (fault.Is(e.Err, fault.Conflict) || fault.Is(e.Err, fault.Invalid))
}

// Retries reports whether a retry may succeed.
func (e *StepError) Retries() bool { return e != nil && !e.Stalls() }

// Reason returns the condition's reason.
func (e *StepError) Reason() string {
	switch kind := fault.From(e.Err).Kind; {
	case fault.ReasonOf(e.Err) == fault.DeletionBlocked:
		return v1alpha1.ReasonDeletionBlocked
	case kind == fault.Conflict:
		return v1alpha1.ReasonConflict
	case kind == fault.Invalid:
		return v1alpha1.ReasonInvalid
	case e.Source == Kubernetes:
		return v1alpha1.ReasonKubernetesUnavailable
	case kind == fault.Unavailable && e.Source == Database:
		return v1alpha1.ReasonDatabaseUnavailable
	case kind == fault.Unavailable && e.Source == ObjectStore:
		return v1alpha1.ReasonObjectStoreUnavailable
	}
	return v1alpha1.ReasonInternalError
}

// Message returns the condition's message: the public text of the fault, never its cause.
// It is the same for every retry, so that a retry does not change the status.
func (e *StepError) Message() string {
	if e.Source == Kubernetes && !e.Stalls() {
		reason := apierrors.ReasonForError(e.Err)
		if reason == "" {
			reason = "no response"
		}
		return fmt.Sprintf("Kubernetes API request failed: %s (%s)", e.Action, reason)
	}
	if public := fault.From(e.Err).Public; public != "" {
		return public
	}
	return "internal error; see the operator log"
}
