package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

func TestSecret_DeletedIsReplacedAndTheOldKeyRevoked(t *testing.T) {
	t.Parallel()
	// The watch triggers the repair: no timer is due before the test times out.
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour })
	object := b.readyAccount("demo")
	old := b.secret("demo", "default")
	must(t, b.Delete(b.ctx, old))
	wait.UntilNone(b.t, func() string {
		secret := &corev1.Secret{}
		if err := b.Get(b.ctx, client.ObjectKeyFromObject(old), secret); err != nil {
			return err.Error()
		}
		if !b.opens(secret.Data["apiKey"]) {
			return "the new key does not open the account"
		}
		if b.opens(old.Data["apiKey"]) { // until the delivery of the new one is recorded
			return "the old key still opens the account"
		}
		return ""
	})
	b.ready(object)
}

func TestSecret_DriftIsCorrectedWithoutANewKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour })
	b.ready(b.account("demo"))
	before := b.secret("demo", "default")
	drifts := map[string]func(*corev1.Secret){
		"data":   func(s *corev1.Secret) { s.Data["baseURL"] = []byte("https://elsewhere.example.org") },
		"labels": func(s *corev1.Secret) { s.Labels = nil },
		"owner":  func(s *corev1.Secret) { s.OwnerReferences = nil },
	}
	for name, drift := range drifts {
		change(b, b.secret("demo", "default"), drift)
		wait.UntilNone(b.t, func() string {
			after := b.secret("demo", "default")
			if string(after.Data["apiKey"]) != string(before.Data["apiKey"]) {
				t.Fatalf("%s: the key changed", name)
			}
			if string(after.Data["baseURL"]) != baseURL || after.Labels[v1alpha1.LabelAccount] != "demo" || len(after.OwnerReferences) != 1 {
				return name + " was not corrected"
			}
			return ""
		})
	}
	if !b.opens(before.Data["apiKey"]) {
		t.Error("the key stopped")
	}
}

// Only the deletion of a Secret revokes its key: a Secret may be overwritten by accident, and the
// clients of its key must not fail then.
func TestSecret_InvalidKeyIsReplacedAndTheOldOneKeepsItsOverlap(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.ready(b.account("demo"))
	old := b.secret("demo", "default").Data["apiKey"]
	change(b, b.secret("demo", "default"), func(s *corev1.Secret) { s.Data["apiKey"] = []byte("msk_spoiled") })
	wait.UntilNone(b.t, func() string {
		key := string(b.secret("demo", "default").Data["apiKey"])
		if key == "msk_spoiled" {
			return "the key was not replaced"
		}
		return ""
	})
	if !b.opens(old) {
		t.Error("the key that clients use ended")
	}
}

func TestKeys_NewGenerationRotatesWithOverlap(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour })
	object := b.account("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.APIKeys.Overlap = &metav1.Duration{Duration: time.Hour}
	})
	b.ready(object)
	old := b.secret("demo", "default").Data["apiKey"]
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.ready(object)
	current := b.secret("demo", "default").Data["apiKey"]
	if string(current) == string(old) {
		t.Fatal("the key did not change")
	}
	if !b.opens(current) || !b.opens(old) {
		t.Error("during the overlap both keys must work")
	}
	if key := object.Status.Keys[0]; key.PreviousExpiresAt == nil || key.Generation != 2 {
		t.Errorf("the status shows no overlap: %+v", key)
	}
	b.ageKeys(time.Hour - 2*time.Second) // the end comes by the timer
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if object.Status.Keys[0].PreviousExpiresAt != nil {
			return "the end of the overlap does not show"
		}
		return ""
	})
	if b.opens(old) || !b.opens(current) {
		t.Error("after the overlap only the new key must work")
	}
}

// A crash between the new key's row and the Secret leaves a current key that is in no Secret,
// while clients use the older one: the older one keeps its overlap.
func TestKeys_InterruptedRotationKeepsTheOverlap(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	old := b.secret("demo", "default").Data["apiKey"]
	apps, _, err := b.registry.OpenApps(b.ctx, b.accountID(object), nil)
	must(t, err)
	lost, _, err := b.registry.IssueKey(b.ctx, apps[0].ID, 1, time.Hour)
	must(t, err)
	wait.UntilNone(b.t, func() string {
		if key := b.secret("demo", "default").Data["apiKey"]; string(key) == string(old) || !b.opens(key) {
			return "the Secret holds no new key"
		}
		return ""
	})
	if string(b.secret("demo", "default").Data["apiKey"]) == lost.Reveal() || !b.opens(old) {
		t.Error("the key that clients use must stay valid for the overlap")
	}
}

func TestSecret_ImmutableIsReplaced(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	old := b.secret("demo", "default")
	change(b, old, func(s *corev1.Secret) { yes := true; s.Immutable = &yes })
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.ready(object)
	if fresh := b.secret("demo", "default"); string(fresh.Data["apiKey"]) == string(old.Data["apiKey"]) || !b.opens(fresh.Data["apiKey"]) {
		t.Error("the rotation did not reach the Secret")
	}
}

func TestSecret_ForeignIsNotOverwritten(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: v1alpha1.SecretName("demo", "default")},
		StringData: map[string]string{"precious": "yes"},
	}
	must(t, b.Create(b.ctx, foreign))
	object := b.account("demo")
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	if object.Status.ObservedGeneration != object.Generation {
		t.Error("a stalled generation has been handled, and must be observed")
	}
	if got := b.secret("demo", "default"); len(got.Data) != 1 || len(got.OwnerReferences) != 0 {
		t.Errorf("the foreign Secret was changed: %v", got)
	}
	must(t, b.Delete(b.ctx, foreign))
	b.ready(object)
}

func TestKeys_RotateByAge(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.account("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.APIKeys.RotateEvery = &metav1.Duration{Duration: 10 * time.Hour}
	})
	b.ready(object)
	first := b.apiKey("demo", "default")
	b.ageKeys(8 * time.Hour)
	b.touch(object, "8 hours")
	if b.apiKey("demo", "default") != first {
		t.Fatal("the key was rotated before its age")
	}
	// The next rotation comes by the timer, which is set from the age in the database.
	keys, err := b.registry.Keys(b.ctx, b.accountID(object))
	must(t, err)
	for _, app := range keys.Apps {
		key := app.Valid[0]
		due := 10*time.Hour - time.Duration(key.ID[15])*time.Hour/256
		b.ageKeys((due - keys.Now.Sub(*key.DeliveredAt) - 2*time.Second).Truncate(time.Second))
	}
	b.touch(object, "almost 10 hours")
	wait.UntilNone(b.t, func() string {
		if b.apiKey("demo", "default") == first {
			return "the key was not rotated"
		}
		return ""
	})
	b.ready(object)
	if rows := b.keyRows(); rows != 2 || !b.opens([]byte(first)) {
		t.Errorf("the rotation made %d rows, or ended the old key", rows)
	}
}

func TestKeys_LoweredGenerationDoesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 5 })
	key := b.apiKey("demo", "default")
	for _, generation := range []int64{2, 4} {
		change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = generation })
		b.ready(object)
		b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonGenerationLowered)
		message := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionKeysReady).Message
		if !strings.Contains(message, fmt.Sprintf("generation is %d, lower than generation 5", generation)) {
			t.Errorf("the message is %q", message)
		}
	}
	// The key of an app that is added now does not make the generations differ.
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.ready(object)
	if b.apiKey("demo", "default") != key || b.sql(`SELECT count(*) FROM api_key WHERE generation = 5`) != 2 {
		t.Error("the lowered generation changed a key")
	}
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 6 })
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	wait.UntilNone(b.t, func() string {
		if b.apiKey("demo", "default") == key {
			return "the raised generation did not rotate"
		}
		return ""
	})
}

func TestSecret_FollowsItsTemplate(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.account("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.APIKeys.SecretTemplate = &v1alpha1.SecretTemplate{
			Labels: map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]v1alpha1.AnnotationValue{"reloader.example.org/match": "true"},
			Keys: map[string]v1alpha1.SecretEntry{"MEDIA_API_KEY": "apiKey"},
		}
	})
	b.ready(object)
	secret := b.secret("demo", "default")
	for name, want := range map[string]string{"type": "mediastack", "provider": "mediastack", "uri": baseURL, "MEDIA_API_KEY": string(secret.Data["apiKey"])} {
		if string(secret.Data[name]) != want {
			t.Errorf("entry %s is %q", name, secret.Data[name])
		}
	}
	if secret.Labels["team"] != "a" || secret.Annotations["reloader.example.org/match"] != "true" {
		t.Errorf("the metadata is %v, %v", secret.Labels, secret.Annotations)
	}
	if object.Status.Binding == nil || object.Status.Binding.Name != secret.Name {
		t.Errorf("the binding is %+v", object.Status.Binding)
	}
	change(b, secret, func(s *corev1.Secret) { delete(s.Data, "MEDIA_API_KEY"); delete(s.Labels, "team"); s.Annotations = nil })
	wait.UntilNone(b.t, func() string {
		s := b.secret("demo", "default")
		if string(s.Data["MEDIA_API_KEY"]) != string(s.Data["apiKey"]) || s.Labels["team"] != "a" || s.Annotations["reloader.example.org/match"] != "true" {
			return "what the template sets was not restored"
		}
		return ""
	})
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.SecretTemplate = nil })
	wait.UntilNone(b.t, func() string {
		s := b.secret("demo", "default")
		if s.Data["MEDIA_API_KEY"] != nil || s.Labels["team"] != "" || len(s.Annotations) != 0 {
			return fmt.Sprintf("what the template had set is still there: %v, %v", s.Labels, s.Annotations)
		}
		return ""
	})
	if b.apiKey("demo", "default") != string(secret.Data["apiKey"]) {
		t.Error("the template changed the key")
	}
}
