package status

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// Set brings conditions to what next says, with the generation that it speaks of.
// The time of a transition moves only when a status changes.
func Set(conditions *[]metav1.Condition, generation int64, next []metav1.Condition) {
	for _, condition := range next {
		condition.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, condition)
	}
}

// Write patches the status of after where it differs from before's, and says
// whether it had to. An object that is gone meanwhile is no error.
func Write(ctx context.Context, c client.Client, before, after client.Object) (bool, error) {
	patch := client.MergeFrom(before)
	data, err := patch.Data(after)
	if err != nil {
		return false, fmt.Errorf("compare the status: %w", err)
	}
	if string(data) == "{}" {
		return false, nil
	}
	if err := c.Status().Patch(ctx, after, client.RawPatch(patch.Type(), data)); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
}

// Announce records an event when Ready changed between two sets of conditions: an
// unchanged failure that is tried again makes none. Steps in between make none either.
func Announce(recorder events.EventRecorder, object client.Object, before, after []metav1.Condition) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionReady), meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if is == nil || is.Reason == v1alpha1.ReasonProgressing || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
		return
	}
	kind := corev1.EventTypeWarning
	switch is.Reason {
	case v1alpha1.ReasonSucceeded, v1alpha1.ReasonSuspended, v1alpha1.ReasonDeleting, v1alpha1.ReasonAccountNotReady:
		kind = corev1.EventTypeNormal
	}
	recorder.Eventf(object, nil, kind, is.Reason, "Reconcile", "%s", is.Message)
}

// Jitter spreads a timer by a tenth to both sides, so that objects that were made
// together do not come back together.
func Jitter(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (0.9 + 0.2*rand.Float64()))
}
