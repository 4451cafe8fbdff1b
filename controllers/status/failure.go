// Package status is how the reconcilers tell what they found: it turns failures
// into reasons and messages, a verdict into the Ready, Reconciling and Stalled
// conditions, writes a status once and only when it differs, and records an event
// when Ready changes. Both reconcilers call it; it decides nothing about accounts.
package status

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/fault"
)

// Source is the part of the world that a failure comes from.
type Source int

// The parts of the world that an operator reaches.
const (
	Database Source = iota
	ObjectStore
	Kubernetes
)

// Failure is why a step did not get done. The kind of its error says what follows:
// Conflict and Invalid stall, everything else is tried again with backoff.
type Failure struct {
	Source Source
	Err    error
	// Doing completes "the Kubernetes API refused to ...", for Kubernetes only.
	Doing string
}

// Fail returns a Failure, or nil when err is nil.
func Fail(source Source, err error) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{Source: source, Err: err}
}

// FailKubernetes returns the failure of a Kubernetes request, or nil when err is nil.
// doing completes the sentence "the Kubernetes API refused to ...".
func FailKubernetes(err error, doing string, args ...any) *Failure {
	if err == nil {
		return nil
	}
	doing = fmt.Sprintf(doing, args...)
	return &Failure{Source: Kubernetes, Err: fmt.Errorf("%s: %w", doing, err), Doing: doing}
}

// Stalls reports whether trying again is in vain until somebody changes something.
func (f *Failure) Stalls() bool {
	return f != nil && (fault.Is(f.Err, fault.Conflict) || fault.Is(f.Err, fault.Invalid))
}

// Retries reports whether the failure may pass by itself.
func (f *Failure) Retries() bool { return f != nil && !f.Stalls() }

// Reason is the condition's reason.
func (f *Failure) Reason() string {
	switch kind := fault.From(f.Err).Kind; {
	case kind == fault.Conflict:
		return v1alpha1.ReasonConflict
	case kind == fault.Invalid:
		return v1alpha1.ReasonInvalid
	case f.Source == Kubernetes:
		return v1alpha1.ReasonKubernetesUnavailable
	case kind == fault.Unavailable && f.Source == Database:
		return v1alpha1.ReasonDatabaseUnavailable
	case kind == fault.Unavailable && f.Source == ObjectStore:
		return v1alpha1.ReasonObjectStoreUnavailable
	}
	return v1alpha1.ReasonInternalError
}

// Message is the condition's message: the public sentence of the fault, never its
// cause. It is the same for every try, so that a retry writes nothing.
func (f *Failure) Message() string {
	if f.Source == Kubernetes && !f.Stalls() {
		why := apierrors.ReasonForError(f.Err)
		if why == "" {
			why = "no answer"
		}
		return fmt.Sprintf("the Kubernetes API refused to %s (%s)", f.Doing, why)
	}
	if public := fault.From(f.Err).Public; public != "" {
		return public
	}
	return "something unforeseen failed: the operator's log says what"
}
