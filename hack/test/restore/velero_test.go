package restore

import (
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

// living is a tenant of a cluster that goes on: a namespace with the MediaAccount media, with one item
// that was sealed before the backup.
type living struct {
	*site
	namespace string
	object    *v1alpha1.MediaAccount
	key       string // before the backup
	item      item
	backup    []*unstructured.Unstructured
}

func (s *site) tenant(t *testing.T, namespace, spec string) *living {
	t.Helper()
	own := *s
	own.t = t
	l := &living{site: &own, namespace: namespace}
	l.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}\n---\n" + l.manifest(spec))
	l.object = l.ready(namespace, "media")
	l.key = l.site.key(namespace, "media", "default")
	l.item = l.upload(l.key, "file.bin", random(2000, 9), true)
	// Retained accounts are those of the other tenants, whose tests run meanwhile: this one has none.
	l.backup = slices.DeleteFunc(l.backUpObjects(namespace), func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "RetainedMediaAccount"
	})
	return l
}

func (l *living) manifest(spec string) string {
	return "{apiVersion: mediastack.dev/v1alpha1, kind: MediaAccount, metadata: {name: media, namespace: " + l.namespace + "}, spec: " + spec + "}"
}

// deleteAccount deletes the MediaAccount, as a mistake.
func (l *living) deleteAccount() {
	l.t.Helper()
	l.delete(object[v1alpha1.MediaAccount](l.namespace, "media"))
	wait.UntilNone(l.t, func() string {
		if l.admin.Get(l.t.Context(), client.ObjectKey{Namespace: l.namespace, Name: v1alpha1.SecretName("media", "default")}, &corev1.Secret{}) == nil {
			return "the Secret is not collected"
		}
		return ""
	})
}

func (l *living) delete(object client.Object) {
	l.t.Helper()
	must(l.t, l.admin.Delete(l.t.Context(), object))
	wait.UntilNone(l.t, func() string {
		err := l.admin.Get(l.t.Context(), client.ObjectKeyFromObject(object), object)
		if !apierrors.IsNotFound(err) {
			return object.GetName() + " still exists"
		}
		return ""
	})
}

// isBack checks that the MediaAccount has its account and its item again, and returns its key.
func (l *living) isBack() (key string) {
	l.t.Helper()
	if now := l.ready(l.namespace, "media"); now.Status.AccountID != l.object.Status.AccountID || len(now.Finalizers) == 0 {
		l.t.Errorf("the account is %s, want %s; finalizers %s", now.Status.AccountID, l.object.Status.AccountID, now.Finalizers)
	}
	key = l.site.key(l.namespace, "media", "default")
	if wrong := l.served(key, l.item); wrong != "" {
		l.t.Error(wrong)
	}
	return key
}

func (l *living) keyWorks(key string) bool {
	l.t.Helper()
	status, _ := l.call(key, http.MethodGet, "/media/get", "", nil)
	return status == http.StatusOK
}

func (l *living) retained() *v1alpha1.RetainedMediaAccount {
	l.t.Helper()
	found := object[v1alpha1.RetainedMediaAccount]("", l.object.Status.AccountID)
	wait.UntilNone(l.t, func() string {
		if err := l.admin.Get(l.t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err.Error()
		}
		return ""
	})
	return found
}

func (l *living) patch(object client.Object, text string) {
	l.t.Helper()
	must(l.t, l.admin.Patch(l.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))))
}

// The guide has these outcomes as a table.
func TestVelero_OutcomeOfEveryRestoreIntoALivingCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.startPostgres(nil)
	s.startS3()
	s.succeeds("mediastack-runtime", "migrate")
	s.startKubernetes()
	s.startRuntime()
	s.startOperator()
	for _, outcome := range []struct {
		name, spec string
		restore    func(l *living)
	}{
		{"account-deleted", "{}", func(l *living) {
			l.deleteAccount()
			l.restoreObjects(l.backup)
			if key := l.isBack(); key != l.key {
				l.t.Error("the key is another one, although its Secret was restored")
			}
		}},
		{"account-deleted-without-finalizers", "{}", func(l *living) {
			l.deleteAccount()
			l.restoreObjects(l.backup, withoutFinalizers)
			if key := l.isBack(); key != l.key {
				l.t.Error("the key is another one, although its Secret was restored")
			}
		}},
		{"account-deleted-with-owner-references", "{}", func(l *living) {
			l.deleteAccount()
			l.restoreObjects(l.backup, withOwners(l.backup))
			wait.UntilNone(l.t, func() string {
				now, secret := l.ready(l.namespace, "media"), &corev1.Secret{}
				err := l.admin.Get(l.t.Context(), client.ObjectKey{Namespace: l.namespace, Name: v1alpha1.SecretName("media", "default")}, secret)
				if err != nil || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != now.UID || !l.keyWorks(string(secret.Data["apiKey"])) {
					return "the MediaAccount has no Secret of its own with a key that works"
				}
				return ""
			})
			l.isBack()
		}},
		{"account-deleted-with-its-media-planned", "{deletionPolicy: Delete, deleteAfter: 24h}", func(l *living) {
			l.deleteAccount()
			if retained := l.retained(); retained.Spec.Reclaim != v1alpha1.ReclaimPurge {
				l.t.Errorf("reclaim is %s", retained.Spec.Reclaim)
			}
			l.restoreObjects(l.backup)
			l.isBack()
		}},
		{"namespace-deleted", "{}", func(l *living) {
			l.delete(object[corev1.Namespace]("", l.namespace))
			l.retained()
			l.restoreObjects(l.backup)
			waiting := object[v1alpha1.MediaAccount](l.namespace, "media")
			wait.UntilNone(l.t, func() string {
				must(l.t, l.admin.Get(l.t.Context(), client.ObjectKeyFromObject(waiting), waiting))
				stalled := meta.FindStatusCondition(waiting.Status.Conditions, v1alpha1.ConditionStalled)
				if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonRetained {
					return "the MediaAccount of another namespace does not wait: " + describe(waiting.Status.Conditions)
				}
				return ""
			})
			l.permit(l.object.Status.AccountID, l.namespace)
			if key := l.isBack(); key != l.key {
				l.t.Error("the key is another one, although its Secret was restored")
			}
		}},
		{"over-existing-objects", "{}", func(l *living) {
			current := l.changeAndRotate()
			l.restoreObjects(l.backup)
			if key := l.isBack(); key != current || l.ready(l.namespace, "media").Spec.DisplayName != "Changed" {
				l.t.Error("Velero leaves what exists, but the key or the spec changed")
			}
		}},
		{"updates-existing-objects", "{}", func(l *living) {
			current := l.changeAndRotate()
			l.updateObjects(l.backup)
			wait.UntilNone(l.t, func() string {
				if key := l.site.key(l.namespace, "media", "default"); key == l.key || !l.keyWorks(key) {
					return "the Secret has the replaced key, or one that does not work"
				}
				return ""
			})
			l.isBack()
			if !l.keyWorks(current) {
				l.t.Error("the key that clients have since the backup ended")
			}
		}},
	} {
		t.Run(outcome.name, func(t *testing.T) {
			t.Parallel()
			outcome.restore(s.tenant(t, outcome.name, outcome.spec))
		})
	}
}

// changeAndRotate changes the spec and rotates the key after the backup. It returns the new key.
func (l *living) changeAndRotate() (current string) {
	l.t.Helper()
	l.patch(l.object, `{"spec":{"displayName":"Changed","apiKeys":{"generation":2,"overlap":"1h"}}}`)
	wait.UntilNone(l.t, func() string {
		if current = l.site.key(l.namespace, "media", "default"); current == l.key {
			return "the key was not rotated"
		}
		return ""
	})
	return current
}
