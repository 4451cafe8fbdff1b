package operator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

func TestTrim_RemovesWhatNoReconcileReads(t *testing.T) {
	t.Parallel()
	account := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "team": "a"},
		Labels:        map[string]string{"team": "b"},
	}}
	if _, err := new(trimmer).trim(account); err != nil {
		t.Fatal(err)
	}
	if account.ManagedFields != nil || len(account.Annotations) != 1 || account.Annotations["team"] != "a" || account.Labels["team"] != "b" {
		t.Errorf("the metadata is %+v", account.ObjectMeta)
	}
}

func TestTrim_SecretsHaveNoContent(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: "demo.default.media", UID: "uid", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Annotations: map[string]string{"team": "a"}, Labels: map[string]string{v1alpha1.LabelAccount: "demo"},
		},
		Data: map[string][]byte{"apiKey": []byte("the key"), "mine": bytes.Repeat([]byte("x"), 1<<20)},
	}
	trimmed, err := new(trimmer).trim(secret)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(trimmed)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1000 || bytes.Contains(text, []byte("the key")) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte("the key")))) {
		t.Errorf("the cache has %d bytes: %.1000s", len(text), text)
	}
	if got := trimmed.(*corev1.Secret); got.Namespace != "team-a" || got.Name != "demo.default.media" || got.UID != "uid" || got.ResourceVersion != "7" {
		t.Errorf("the metadata is %+v", got.ObjectMeta)
	}
}

// The decoder makes a time for each key, and lists with room for more.
func TestTrim_KeysMadeTogetherShareTheirTime(t *testing.T) {
	t.Parallel()
	made, later := metav1.Unix(100, 0), metav1.Unix(200, 0)
	account := &v1alpha1.MediaAccount{
		Spec:   v1alpha1.MediaAccountSpec{Apps: append(make([]v1alpha1.AppSpec, 0, 64), v1alpha1.AppSpec{Name: "site"})},
		Status: v1alpha1.MediaAccountStatus{Keys: append(make([]v1alpha1.KeyStatus, 0, 64), v1alpha1.KeyStatus{CreatedAt: new(made)}, v1alpha1.KeyStatus{CreatedAt: new(made)}, v1alpha1.KeyStatus{CreatedAt: new(later)}, v1alpha1.KeyStatus{})},
	}
	if _, err := new(trimmer).trim(account); err != nil {
		t.Fatal(err)
	}
	keys := account.Status.Keys
	if keys[0].CreatedAt != keys[1].CreatedAt || !keys[1].CreatedAt.Equal(&made) || !keys[2].CreatedAt.Equal(&later) || keys[3].CreatedAt != nil {
		t.Errorf("the keys are %+v", keys)
	}
	if cap(keys) >= 64 || cap(account.Spec.Apps) >= 64 {
		t.Errorf("there is room for %d keys and %d apps", cap(keys), cap(account.Spec.Apps))
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
		if _, err := new(trimmer).trim(object); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range texts(first) {
		if other := texts(second)[i]; text == "" || text != other || unsafe.StringData(text) != unsafe.StringData(other) {
			t.Errorf("%q and %q do not share their memory", text, other)
		}
	}
}
