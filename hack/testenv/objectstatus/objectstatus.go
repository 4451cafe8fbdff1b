// Package objectstatus says what clients conclude from the status of the custom resources:
// kstatus (Flux, kapp, cli-utils), kubectl wait, and Argo CD. It finds statuses from which they
// conclude different things. Tests use it on every version of the objects that they cause.
package objectstatus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"mediastack.dev/api/v1alpha1"
)

// Object is what the rules read of a MediaAccount, a MediaSettings, a MediaWebhook or a RetainedMediaAccount.
type Object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// Parse returns what the rules read.
func Parse(raw *unstructured.Unstructured) (*Object, error) {
	object := &Object{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, object)
	return object, err
}

// Condition returns a condition, or nil.
func (o *Object) Condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(o.Status.Conditions, kind)
}

// Is reports whether a condition is True.
func (o *Object) Is(kind string) bool {
	return meta.IsStatusConditionTrue(o.Status.Conditions, kind)
}

// Observed reports whether the operator has handled the current generation.
func (o *Object) Observed() bool { return o.Status.ObservedGeneration == o.Generation }

// Kstatus returns the status that kstatus computes.
func Kstatus(raw *unstructured.Unstructured) (status.Status, error) {
	result, err := status.Compute(raw)
	if err != nil {
		return status.UnknownStatus, err
	}
	return result.Status, nil
}

// KubectlWaits reports whether `kubectl wait --for=condition=Ready` still waits for an object. As
// kubectl does, it ignores a condition that was observed at an older generation.
func (o *Object) KubectlWaits() bool {
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration < o.Generation || ready.Status != metav1.ConditionTrue
}

// Contradictions returns one sentence for everything in a status that is not true together.
func Contradictions(raw *unstructured.Unstructured) ([]string, error) {
	object, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	computed, err := Kstatus(raw)
	if err != nil {
		return nil, err
	}
	found := object.ownContradictions()
	return append(found, object.contradicts(computed)...), nil
}

// ownContradictions returns what contradicts itself, whatever a client is.
func (o *Object) ownContradictions() (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if len(o.Status.Conditions) == 0 {
		if o.Observed() {
			wrong("the generation is observed, but there are no conditions")
		}
		return found
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if meta.FindStatusCondition(o.Status.Conditions, kind) == nil {
			wrong("there is no condition %s", kind)
		}
	}
	for _, condition := range o.Status.Conditions {
		if condition.Message == "" {
			wrong("%s has no message", condition.Type)
		}
		if condition.ObservedGeneration > o.Generation {
			wrong("%s was observed at generation %d of %d", condition.Type, condition.ObservedGeneration, o.Generation)
		}
	}
	ready, reconciling, stalled := o.Is(v1alpha1.ConditionReady), o.Is(v1alpha1.ConditionReconciling), o.Is(v1alpha1.ConditionStalled)
	switch {
	case reconciling && stalled:
		wrong("Reconciling and Stalled are both True")
	case ready && reconciling:
		wrong("Ready and Reconciling are both True")
	case ready && stalled:
		wrong("Ready and Stalled are both True")
	case !ready && !reconciling && !stalled:
		wrong("none of Ready, Reconciling and Stalled is True")
	}
	return found
}

// contradicts returns where clients conclude different things.
func (o *Object) contradicts(computed status.Status) (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	want := status.InProgressStatus
	switch {
	case o.DeletionTimestamp != nil:
		want = status.TerminatingStatus
	case o.Observed() && o.Is(v1alpha1.ConditionReady):
		want = status.CurrentStatus
	case o.Observed() && o.Is(v1alpha1.ConditionStalled):
		want = status.FailedStatus
	}
	if computed != want {
		wrong("kstatus says %s, the conditions say %s", computed, want)
	}
	if o.DeletionTimestamp == nil && o.KubectlWaits() == (computed == status.CurrentStatus) {
		wrong("kstatus says %s, but kubectl wait --for=condition=Ready waits: %t", computed, o.KubectlWaits())
	}
	return found
}
