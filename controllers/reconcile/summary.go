package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

// Summary is the result of a reconcile as Ready, Reconciling and Stalled show it. At most one
// of the three is set.
type Summary struct {
	// Ready is set when the whole object matches its spec.
	Ready bool
	// Reconciling is set when the operator continues by itself: at once, on an event, or
	// after a delay.
	Reconciling bool
	// Stalled is set when a user has to change something first.
	Stalled bool
	// Reason and Message explain the condition that is set.
	Reason  string
	Message string
}

// Ready returns the summary of an object that matches its spec.
func Ready(reason, message string) Summary {
	return Summary{Ready: true, Reason: reason, Message: message}
}

// Reconciling returns the summary of an object that is being changed.
func Reconciling(reason, message string) Summary {
	return Summary{Reconciling: true, Reason: reason, Message: message}
}

// FromErrors summarizes the errors of a reconcile. An error that stalls wins: the object is
// Stalled and not Reconciling, although other errors are retried meanwhile, since it does not
// become Ready before a user acted. The reason and the message are those of the first error
// that stalls, or else of the first error. ok is false when all are nil.
func FromErrors(errs ...*StepError) (summary Summary, ok bool) {
	var first *StepError
	for _, err := range errs {
		if err != nil && (first == nil || err.Stalls() && !first.Stalls()) {
			first = err
		}
	}
	if first == nil {
		return Summary{}, false
	}
	return Summary{Stalled: first.Stalls(), Reconciling: !first.Stalls(), Reason: first.Reason(), Message: first.Message()}, true
}

// SummaryTypes returns the types of the conditions of a Summary, and more.
func SummaryTypes(more ...string) []string {
	return append([]string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}, more...)
}

// Conditions returns Ready, Reconciling and Stalled.
func (s Summary) Conditions() []metav1.Condition {
	ready := Condition(v1alpha1.ConditionReady, s.Ready, s.Reason, s.Message)
	restReason := v1alpha1.ReasonSucceeded
	if !s.Ready {
		restReason = s.Reason
	}
	reconciling := Condition(v1alpha1.ConditionReconciling, false, restReason, "No changes in progress")
	if s.Reconciling {
		reconciling = Condition(v1alpha1.ConditionReconciling, true, s.Reason, s.Message)
	}
	stalled := Condition(v1alpha1.ConditionStalled, false, restReason, "No action required")
	if s.Stalled {
		stalled = Condition(v1alpha1.ConditionStalled, true, s.Reason, s.Message)
	}
	return []metav1.Condition{ready, reconciling, stalled}
}

// Condition returns a condition that is True or False.
func Condition(kind string, isTrue bool, reason, message string) metav1.Condition {
	value := metav1.ConditionFalse
	if isTrue {
		value = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message}
}

// UnknownCondition returns a condition that is Unknown.
func UnknownCondition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}
