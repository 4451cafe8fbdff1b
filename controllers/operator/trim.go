package operator

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/mediaaccount"
)

// trimmer trims the objects of the cache. The zero value is ready for use.
type trimmer struct{ secrets mediaaccount.SecretCompactor }

// trim is the transform of the cache. It removes what no reconcile reads, and lets texts that many
// objects have in common share their memory.
func (t *trimmer) trim(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		return t.secrets.Compact(secret), nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // a tombstone has no metadata
	}
	accessor.SetManagedFields(nil)
	if annotations := accessor.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		accessor.SetAnnotations(annotations)
	}
	switch object := object.(type) {
	case *v1alpha1.MediaAccount:
		shareConditions(object.Status.Conditions)
		if endpoints := object.Status.Endpoints; endpoints != nil {
			share(&endpoints.REST, &endpoints.Resumable, &endpoints.MCP)
		}
		shareTimes(object.Status.Keys)
		// The decoder leaves room for more.
		object.Spec.Apps, object.Status.Keys = slices.Clone(object.Spec.Apps), slices.Clone(object.Status.Keys)
	case *v1alpha1.MediaSettings:
		shareConditions(object.Status.Conditions)
	case *v1alpha1.MediaWebhook:
		shareConditions(object.Status.Conditions)
	case *v1alpha1.RetainedMediaAccount:
		shareConditions(object.Status.Conditions)
	}
	return object, nil
}

func shareConditions(conditions []metav1.Condition) {
	for i := range conditions {
		share(&conditions[i].Type, (*string)(&conditions[i].Status), &conditions[i].Reason, &conditions[i].Message)
	}
}

// share replaces texts by equal ones in memory that is in use already.
func share(texts ...*string) {
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}

// shareTimes lets keys that were made together, as those of a new account, share their time.
func shareTimes(keys []v1alpha1.KeyStatus) {
	for i := 1; i < len(keys); i++ {
		if before := keys[i-1].CreatedAt; before != nil && keys[i].CreatedAt != nil && before.Equal(keys[i].CreatedAt) {
			keys[i].CreatedAt = before
		}
	}
}
