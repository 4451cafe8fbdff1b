package operator

import (
	"bytes"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

// maxCachedValue is the length up to which the cache has the values of a Secret. The operator's own are
// shorter; a tenant may add others, of up to 1 MiB in each Secret. A value that was cut differs from
// what is desired, so that a reconcile reads the Secret from the API server before it decides anything.
const maxCachedValue = 4 << 10

// trim is the transform of the cache. It removes what no reconcile reads, and lets texts that many
// objects have in common share their memory.
func trim(object any) (any, error) {
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
	case *v1alpha1.MediaSettings:
		shareConditions(object.Status.Conditions)
	case *v1alpha1.RetainedMediaAccount:
		shareConditions(object.Status.Conditions)
	case *corev1.Secret:
		for name, value := range object.Data {
			if len(value) > maxCachedValue {
				object.Data[name] = bytes.Clone(value[:maxCachedValue]) // a part would keep the whole
			}
		}
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
