package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// setConditions sets next in conditions, as observed at generation. The transition time of
// a condition changes only when its status does.
func setConditions(conditions *[]metav1.Condition, generation int64, next []metav1.Condition) {
	for _, condition := range next {
		condition.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, condition)
	}
}

// removeForeign removes the conditions whose type is not one of types. The operator owns the status:
// conditions that others added would fill the list, so that no status could be written any more.
func removeForeign(conditions *[]metav1.Condition, types []string) {
	*conditions = slices.DeleteFunc(*conditions, func(condition metav1.Condition) bool { return !slices.Contains(types, condition.Type) })
}

// Shows reports whether conditions are want, as observed at generation, and no others.
func Shows(conditions []metav1.Condition, generation int64, want []metav1.Condition) bool {
	return len(conditions) == len(want) && !slices.ContainsFunc(want, func(next metav1.Condition) bool {
		found := meta.FindStatusCondition(conditions, next.Type)
		return found == nil || found.Status != next.Status || found.Reason != next.Reason || found.Message != next.Message || found.ObservedGeneration != generation
	})
}

// isReady reports whether a status says that this generation is Ready.
func isReady(status Status, generation int64) bool {
	ready := meta.FindStatusCondition(*status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == generation && *status.ObservedGeneration == generation
}

// patchStatus patches the status where it differs between original and object, and reports
// whether it did. An object that was deleted meanwhile is no error. One that was changed
// meanwhile, or created again under the same name, is a conflict: the status was computed for
// another one.
func patchStatus(ctx context.Context, c client.Client, original, object client.Object, before, after any) (bool, error) {
	data, err := mergePatch(before, after)
	if err != nil {
		return false, fmt.Errorf("compare the status: %w", err)
	}
	if string(data) == "{}" {
		return false, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":%s}`, original.GetResourceVersion(), data)
	answer, err := metadataOf(c, object)
	if err != nil {
		return false, err
	}
	if err := c.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	object.SetResourceVersion(answer.ResourceVersion)
	return true, nil
}

// mergePatch returns the JSON merge patch between two values.
func mergePatch(before, after any) ([]byte, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil || bytes.Equal(was, is) {
		return []byte("{}"), err
	}
	return jsonpatch.CreateMergePatch(was, is)
}

// recordReadyEvent records an event when Ready changed. An unchanged failure that is
// retried records none, and neither does intermediate progress.
func recordReadyEvent(recorder events.EventRecorder, object client.Object, before, after []metav1.Condition) {
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
