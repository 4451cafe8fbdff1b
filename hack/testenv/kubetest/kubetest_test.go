package kubetest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

func TestKubernetes_EnforcesRBAC(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	admin, err := kubernetes.NewForConfig(kubetest.Access(t))
	must(t, err)
	namespace, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	must(t, err)
	if _, err := admin.CoreV1().ServiceAccounts(namespace.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubetest.ServiceAccountKubeconfig(t, namespace.Name, "nobody"))
	must(t, err)
	nobody, err := kubernetes.NewForConfig(config)
	must(t, err)
	if _, err := nobody.CoreV1().Secrets(namespace.Name).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a service account without a role lists Secrets: %v", err)
	}
}

// An operator meets the controllers of a real cluster: tests that count on them must not pass
// because nothing collects garbage, empties namespaces or counts objects.
func TestKubernetes_RunsControllers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plane := kubetest.Shared(t)
	admin, err := kubernetes.NewForConfig(plane.Access())
	must(t, err)
	namespace, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	must(t, err)
	secrets := admin.CoreV1().Secrets(namespace.Name)
	owner := mediaAccount(t, plane, namespace.Name)
	dependent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "dependent", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}}}
	if _, err := secrets.Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deleteMediaAccount(t, plane, owner)
	wait.Until(t, "the Secret of a deleted owner is collected", func() bool {
		_, err := secrets.Get(ctx, "dependent", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}}}
	if _, err := admin.CoreV1().ResourceQuotas(namespace.Name).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a quota rejects Secrets", func() bool {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "more-"}}, metav1.CreateOptions{})
		return apierrors.IsForbidden(err)
	})

	must(t, admin.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}))
	wait.Until(t, "the namespace is gone", func() bool {
		_, err := admin.CoreV1().Namespaces().Get(ctx, namespace.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func accounts(t *testing.T, plane *kubetest.ControlPlane, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(plane.Access())
	must(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "mediastack.dev", Version: "v1alpha1", Resource: "mediaaccounts"}).Namespace(namespace)
}

func mediaAccount(t *testing.T, plane *kubetest.ControlPlane, namespace string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "mediastack.dev/v1alpha1", "kind": "MediaAccount", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{}}}
	created, err := accounts(t, plane, namespace).Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	return created
}

func deleteMediaAccount(t *testing.T, plane *kubetest.ControlPlane, object *unstructured.Unstructured) {
	t.Helper()
	must(t, accounts(t, plane, object.GetNamespace()).Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}))
}

func TestNewKubernetes_KeepsObjectsAndCredentialsOverACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plane := kubetest.New(t)
	object := mediaAccount(t, plane, "default")
	plane.KillAPIServer()
	if _, err := accounts(t, plane, "default").Get(ctx, "demo", metav1.GetOptions{}); err == nil {
		t.Error("the killed API server still answers")
	}
	plane.StartAPIServer()
	found, err := accounts(t, plane, "default").Get(ctx, "demo", metav1.GetOptions{})
	if err != nil || found.GetUID() != object.GetUID() {
		t.Errorf("got %v, %v", found, err)
	}
	if _, err := accounts(t, kubetest.Shared(t), "default").Get(ctx, "demo", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the shared control plane has the object of another one: %v", err)
	}
}
