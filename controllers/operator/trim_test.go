package operator

import (
	"bytes"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

func TestTrim_RemovesWhatNoReconcileReads(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "team": "a"},
			Labels:        map[string]string{v1alpha1.LabelAccount: "demo"},
		},
		Data: map[string][]byte{"apiKey": []byte("key"), "mine": bytes.Repeat([]byte("x"), 1<<20)},
	}
	if _, err := trim(secret); err != nil {
		t.Fatal(err)
	}
	if secret.ManagedFields != nil || len(secret.Annotations) != 1 || secret.Annotations["team"] != "a" || secret.Labels[v1alpha1.LabelAccount] != "demo" {
		t.Errorf("the metadata is %+v", secret.ObjectMeta)
	}
	if string(secret.Data["apiKey"]) != "key" || len(secret.Data["mine"]) != maxCachedValue || cap(secret.Data["mine"]) > 2*maxCachedValue {
		t.Errorf("the values have %d and %d bytes, of %d", len(secret.Data["apiKey"]), len(secret.Data["mine"]), cap(secret.Data["mine"]))
	}
}

func TestTrim_EqualTextsShareMemory(t *testing.T) {
	t.Parallel()
	account := func() *v1alpha1.MediaAccount {
		return &v1alpha1.MediaAccount{Status: v1alpha1.MediaAccountStatus{
			Conditions: []metav1.Condition{{Type: string([]byte("Ready")), Status: metav1.ConditionTrue, Reason: string([]byte("Succeeded")), Message: string([]byte("The account is ready for use"))}},
			Endpoints:  &v1alpha1.EndpointsStatus{REST: string([]byte("https://media.example.org"))},
		}}
	}
	texts := func(a *v1alpha1.MediaAccount) []string {
		condition := a.Status.Conditions[0]
		return []string{condition.Type, condition.Reason, condition.Message, a.Status.Endpoints.REST}
	}
	first, second := account(), account()
	for _, object := range []any{first, second} {
		if _, err := trim(object); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range texts(first) {
		if other := texts(second)[i]; text == "" || text != other || unsafe.StringData(text) != unsafe.StringData(other) {
			t.Errorf("%q and %q do not share their memory", text, other)
		}
	}
}
