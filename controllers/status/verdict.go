package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

// Verdict is what a reconcile came to, as far as Ready, Reconciling and Stalled
// tell it.
type Verdict struct {
	// Ready says that the whole object is as its spec says.
	Ready bool
	// Working says that the operator goes on by itself: at once, on an event, or
	// with backoff.
	Working bool
	// Stalled says that somebody has to change something first.
	Stalled bool
	// Reason and Message explain whichever of the three stands out.
	Reason  string
	Message string
}

// Done is the verdict of an object that is as its spec says.
func Done(reason, message string) Verdict {
	return Verdict{Ready: true, Reason: reason, Message: message}
}

// Working is the verdict of an object that is on its way.
func Working(reason, message string) Verdict {
	return Verdict{Working: true, Reason: reason, Message: message}
}

// Failed is the verdict of the failures of a reconcile, the first of them that
// stalls, or else the first, as its reason; ok is false when there is none.
func Failed(failures ...*Failure) (verdict Verdict, ok bool) {
	var first *Failure
	for _, failure := range failures {
		if failure == nil {
			continue
		}
		if first == nil || (failure.Stalls() && !first.Stalls()) {
			first = failure
		}
		verdict.Stalled = verdict.Stalled || failure.Stalls()
		verdict.Working = verdict.Working || failure.Retries()
	}
	if first == nil {
		return Verdict{}, false
	}
	verdict.Reason, verdict.Message = first.Reason(), first.Message()
	return verdict, true
}

// Conditions returns Ready, Reconciling and Stalled.
func (v Verdict) Conditions() []metav1.Condition {
	ready := Condition(v1alpha1.ConditionReady, v.Ready, v.Reason, v.Message)
	atRest := v1alpha1.ReasonSucceeded
	if !v.Ready {
		atRest = v.Reason
	}
	reconciling := Condition(v1alpha1.ConditionReconciling, false, atRest, "Nothing is being changed")
	if v.Working {
		reconciling = Condition(v1alpha1.ConditionReconciling, true, v.Reason, v.Message)
	}
	stalled := Condition(v1alpha1.ConditionStalled, false, atRest, "Nothing needs a hand")
	if v.Stalled {
		stalled = Condition(v1alpha1.ConditionStalled, true, v.Reason, v.Message)
	}
	return []metav1.Condition{ready, reconciling, stalled}
}

// Condition is a condition that is True or False.
func Condition(kind string, is bool, reason, message string) metav1.Condition {
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message}
}

// Unknown is a condition that can't be told.
func Unknown(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}
