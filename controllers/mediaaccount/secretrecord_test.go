package mediaaccount

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

func TestCompact_EveryDifferenceOfThePlanIsSeen(t *testing.T) {
	t.Parallel()
	pair := newKey(t, 1)
	want := desiredOf(1)
	want.template = v1alpha1.SecretTemplate{
		Labels: map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]v1alpha1.AnnotationValue{"reloader": "on"},
		Keys: map[string]v1alpha1.SecretEntry{"MEDIA_KEY": "apiKey", "MEDIA_URL": "baseURL"},
	}
	secrets := &SecretCompactor{}
	good := func() *corev1.Secret { return want.secret(nil, pair.token.Reveal(), pair.key) }
	if want.differs(secrets.Compact(good()), pair.key) {
		t.Fatal("a Secret as desired differs")
	}
	long := strings.Repeat("x", 1<<20)
	changes := map[string]func(*corev1.Secret){}
	for name := range good().Data {
		changes["data "+name+" is removed"] = func(s *corev1.Secret) { delete(s.Data, name) }
		if name != v1alpha1.SecretAPIKey { // that is another key
			changes["data "+name+" has more"] = func(s *corev1.Secret) { s.Data[name] = append(s.Data[name], 'x') }
			changes["data "+name+" is long"] = func(s *corev1.Secret) { s.Data[name] = append(s.Data[name], long...) }
		}
	}
	for name := range good().Labels {
		changes["label "+name] = func(s *corev1.Secret) { s.Labels[name] += "x" }
	}
	for name := range good().Annotations {
		changes["annotation "+name] = func(s *corev1.Secret) { s.Annotations[name] += "x" }
	}
	changes["values are exchanged"] = func(s *corev1.Secret) {
		s.Data[v1alpha1.SecretBaseURL], s.Data[v1alpha1.SecretApp] = s.Data[v1alpha1.SecretApp], s.Data[v1alpha1.SecretBaseURL]
	}
	changes["a label became an annotation"] = func(s *corev1.Secret) {
		s.Annotations["team"], s.Labels = s.Labels["team"], map[string]string{v1alpha1.LabelAccount: "demo"}
	}
	changes["the controller has another UID"] = func(s *corev1.Secret) { s.OwnerReferences[0].UID = "uid-2" }
	changes["the controller is none"] = func(s *corev1.Secret) { s.OwnerReferences[0].Controller = nil }
	drift := secretDrift()
	for name, change := range changes {
		secret := good()
		change(secret)
		if !want.differs(secrets.Compact(secret), pair.key) {
			t.Errorf("%s: no difference", name)
		}
		if !drift.Update(event.UpdateEvent{ObjectOld: secrets.Compact(good()), ObjectNew: secrets.Compact(secret)}) {
			t.Errorf("%s: no drift", name)
		}
	}
	if drift.Update(event.UpdateEvent{ObjectOld: secrets.Compact(good()), ObjectNew: secrets.Compact(good())}) {
		t.Error("equal Secrets drift")
	}
}

func TestCompact_KeepsWhatRemovesAndFindsASecret(t *testing.T) {
	t.Parallel()
	pair := newKey(t, 1)
	secret := desiredOf(1).secret(nil, pair.token.Reveal(), pair.key)
	secret.UID, secret.ResourceVersion = "uid-of-secret", "42"
	secret.DeletionTimestamp, secret.Finalizers = &metav1.Time{}, []string{"example.org/backup"}
	*secret.DeletionTimestamp = metav1.Unix(7, 0)
	secrets := &SecretCompactor{}
	compact := secrets.Compact(secret)
	if recordOf(compact).account != "demo" || compact.UID != secret.UID || compact.ResourceVersion != "42" || compact.Namespace != "team-a" || compact.Name != secret.Name {
		t.Errorf("the Secret is %+v", compact)
	}
	if !isTerminating(compact) || len(compact.Finalizers) != 1 || metav1.GetControllerOf(compact).UID != "uid-1" {
		t.Errorf("the metadata is %+v", compact.ObjectMeta)
	}
	if again := secrets.Compact(compact); again != compact {
		t.Error("a Secret of the cache is made again")
	}
}

func TestCompact_SecretsOfAnAccountShareTheirControllerForAsLongAsTheyExist(t *testing.T) {
	t.Parallel()
	secrets := &SecretCompactor{}
	known := func() (count int) {
		secrets.controllers.Range(func(any, any) bool { count++; return true })
		return count
	}
	compact := func() *corev1.Secret {
		return secrets.Compact(desiredOf(1).secret(nil, newKey(t, 1).token.Reveal(), newKey(t, 1).key))
	}
	first, second := compact(), compact()
	if &first.OwnerReferences[0] != &second.OwnerReferences[0] || known() != 1 {
		t.Errorf("%d controllers are known", known())
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)
	wait.UntilNone(t, func() string {
		runtime.GC()
		if known() > 0 {
			return "a controller without Secrets is known"
		}
		return ""
	})
}
