package operator_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/installation"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// The names of config/default.
const (
	systemNamespace    = "mediastack-system"
	operatorDeployment = "mediastack-operator"
)

// removal is an operator that was installed with config/default, and is removed from its cluster.
type removal struct {
	*harness
	installed []*unstructured.Unstructured
	ids       map[string]string // of the accounts, by name
	key       []byte            // of the protected account
}

// removals are the ways to remove it.
var removals = map[string]struct {
	remove func(*removal)
	// late is whether the operator gets SIGTERM after 5 s. Otherwise it gets it at once.
	late bool
	// definitions is whether the definitions are deleted: their objects are Terminating for good.
	definitions bool
}{
	"kubectl delete -k, SIGTERM at once": {(*removal).deletesKustomization, false, true},
	"kubectl delete -k, SIGTERM later":   {(*removal).deletesKustomization, true, true},
	"the reverse order, SIGTERM later":   {(*removal).deletesInReverse, true, true},
	"helm uninstall, SIGTERM at once":    {(*removal).deletesAsHelm, false, true},
	"helm uninstall, SIGTERM later":      {(*removal).deletesAsHelm, true, true},
	"kubectl delete crd":                 {(*removal).deletesDefinitionsOnly, true, true},
	"the namespace, then the accounts":   {(*removal).deletesNamespaceThenAccounts, true, false},
	"the Deployment, then the accounts":  {(*removal).deletesDeploymentThenAccounts, true, false},
}

// `kubectl delete -k config/default` deletes the definitions, and with them the MediaAccounts, while the
// operator still runs. Accounts with deletionPolicy Delete once lost their media, and protected ones their
// keys. The tests delete the definitions of a cluster, so that they have one of their own.
func TestRemoval_LosesNothingInAnyOrder(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t)
	for name, c := range removals {
		t.Run(name, func(t *testing.T) {
			r := installs(t, plane)
			stop := r.run(r.config)
			r.fill()
			began := time.Now()
			c.remove(r)
			if c.late {
				wait.Until(t, "5 s have passed since the removal", func() bool { return time.Since(began) >= 5*time.Second })
			}
			stop()
			r.lostNothing()

			// It is installed again: an operator that starts finds what the former one left.
			r.reinstalls()
			stop = r.run(r.config)
			if c.definitions {
				r.leavesTheProtectedAccountOnly()
				r.lostNothing()
				change(r.harness, &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "protected"}},
					func(a *v1alpha1.MediaAccount) { a.Spec.DeletionProtection = false })
			}
			r.hasNoAccounts()
			r.keepsAll(r.ids)
			stop()
			r.reinstalls()
			r.run(r.config)
			r.areBack(r.ids)
		})
		plane.Apply(kubetest.Manifests(t, "crd/bases")...)
		removeAll(t, admin(t, plane))
	}
}

// installs applies config/default, and returns a harness whose operators are those of its service account.
func installs(t *testing.T, plane *kubetest.ControlPlane) *removal {
	t.Helper()
	r := &removal{installed: kubetest.ParseManifests(t, testenv.Run(t, 4*time.Minute, testenv.RepoRoot(t), testenv.Kubectl(t), "kustomize", "config/default"))}
	plane.Apply(r.installed...)
	r.harness = newHarness(t, quiet, idle, func(o *options) { o.plane = func(testing.TB) *kubetest.ControlPlane { return plane } })
	r.config.Namespace, r.config.Deployment = systemNamespace, operatorDeployment
	// The database is another one than that of the test before.
	must(t, client.IgnoreNotFound(r.Delete(r.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: installation.ConfigMapName}})))
	r.access = func() *rest.Config { // the service account is another one after each installation
		config, err := clientcmd.BuildConfigFromFlags("", plane.ServiceAccountKubeconfig(systemNamespace, "mediastack-operator"))
		must(t, err)
		return config
	}
	return r
}

// fill creates accounts of each deletion policy, one of which is protected, with items.
func (r *removal) fill() {
	r.t.Helper()
	object := r.account("protected", erasedAtOnce, protected)
	r.ready(object)
	r.ids = r.withItems()
	r.ids["protected"] = object.Status.AccountID
	r.key = r.secret("protected", "default").Data["apiKey"]
}

// lostNothing fails unless every account has its items and its bucket, none is to be deleted, and the
// protected one is open with its key.
func (r *removal) lostNothing() {
	r.t.Helper()
	conn := testenv.Connections(r.t, r.databaseURL)
	for name, id := range r.ids {
		var open, kept bool
		var items int
		var bucket string
		err := conn.QueryRow(r.ctx, `SELECT closed_at IS NULL, erase_after IS NULL AND erasing_at IS NULL, bucket, (SELECT count(*) FROM item WHERE account_id = account.id)
			FROM account WHERE id = $1`, id).Scan(&open, &kept, &bucket, &items)
		if err != nil {
			r.t.Errorf("account %s: %v", name, err)
			continue
		}
		exists, err := r.store.BucketExists(r.ctx, bucket)
		if !kept || items != 3 || err != nil || !exists || name == "protected" && !open {
			r.t.Errorf("account %s: open: %t, kept: %t, %d items, bucket: %t, %v", name, open, kept, items, exists, err)
		}
	}
	if !r.opens(r.key) {
		r.t.Error("the key of the protected account has ended")
	}
}

// deletes deletes objects, which may be gone already.
func (r *removal) deletes(objects ...*unstructured.Unstructured) {
	r.t.Helper()
	for _, object := range objects {
		must(r.t, client.IgnoreNotFound(r.Delete(r.ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))))
	}
}

// of returns the installed objects of a kind.
func (r *removal) of(kind string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(r.installed), func(object *unstructured.Unstructured) bool { return object.GetKind() != kind })
}

// deletesKustomization deletes as kubectl does: the namespace, the definitions, the service account, its
// roles, and the Deployment after them. kubectl sends all deletions before it waits for any.
func (r *removal) deletesKustomization() {
	r.t.Helper()
	testenv.Run(r.t, 4*time.Minute, testenv.RepoRoot(r.t), testenv.Kubectl(r.t), "--kubeconfig", r.plane.Kubeconfig(), "delete", "-k", "config/default", "--wait=false", "--ignore-not-found")
}

func (r *removal) deletesInReverse() {
	r.t.Helper()
	reverse := slices.Clone(r.installed)
	slices.Reverse(reverse)
	r.deletes(reverse...)
}

// deletesAsHelm deletes in Helm's order: the Deployment first, then the roles, the definitions after them,
// and no namespace.
func (r *removal) deletesAsHelm() {
	r.t.Helper()
	for _, kind := range []string{"Service", "CronJob", "Deployment", "RoleBinding", "Role", "ClusterRoleBinding", "ClusterRole", "CustomResourceDefinition",
		"ConfigMap", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		r.deletes(r.of(kind)...)
	}
}

// deletesDefinitionsOnly also waits until the operator, which keeps its permissions, has handled every
// account: its event says why the media is retained.
func (r *removal) deletesDefinitionsOnly() {
	r.t.Helper()
	r.deletes(r.of("CustomResourceDefinition")...)
	r.leavesTheProtectedAccountOnly()
	wait.UntilNone(r.t, func() string {
		events := &corev1.EventList{}
		must(r.t, r.List(r.ctx, events, client.InNamespace(r.namespace)))
		for _, event := range events.Items {
			if event.Reason == "DeletionPolicyOverruled" && event.InvolvedObject.Name == "at-once" &&
				strings.Contains(event.Message, "CustomResourceDefinition mediaaccounts.mediastack.dev is being deleted") {
				return ""
			}
		}
		return fmt.Sprintf("no event names the definition: %+v", events.Items)
	})
}

func (r *removal) deletesNamespaceThenAccounts() {
	r.t.Helper()
	r.deletes(r.of("Namespace")...)
	r.deletesAccounts()
}

func (r *removal) deletesDeploymentThenAccounts() {
	r.t.Helper()
	for _, deployment := range r.of("Deployment") {
		r.deletes(deployment)
		wait.UntilNone(r.t, func() string {
			if err := r.Get(r.ctx, client.ObjectKeyFromObject(deployment), deployment.DeepCopy()); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s still exists: %v", deployment.GetName(), err)
			}
			return ""
		})
	}
	r.deletesAccounts()
}

// deletesAccounts deletes all accounts, the protected one after the admission policy.
func (r *removal) deletesAccounts() {
	r.t.Helper()
	r.deletes(r.of("ValidatingAdmissionPolicyBinding")...)
	for name := range r.ids {
		wait.UntilNone(r.t, func() string { // the policy ends some time after it was deleted
			object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
			if err := client.IgnoreNotFound(r.Delete(r.ctx, object)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// reinstalls applies config/default when nothing of the former installation can vanish any more: what is
// Terminating then has objects that wait for an operator.
func (r *removal) reinstalls() {
	r.t.Helper()
	for _, object := range slices.Concat(r.of("Namespace"), r.of("CustomResourceDefinition")) {
		wait.UntilNone(r.t, func() string {
			found := object.DeepCopy()
			err := r.Get(r.ctx, client.ObjectKeyFromObject(object), found)
			must(r.t, client.IgnoreNotFound(err))
			if err != nil || found.GetDeletionTimestamp().IsZero() || r.waits(found.GetName()) {
				return ""
			}
			return found.GetName() + " is still being deleted"
		})
	}
	r.plane.Apply(r.installed...)
}

// waits reports whether a definition has objects with finalizers, which no operator releases at present.
func (r *removal) waits(definition string) bool {
	r.t.Helper()
	lists := map[string]client.ObjectList{
		"mediaaccounts.mediastack.dev": &v1alpha1.MediaAccountList{}, "mediasettings.mediastack.dev": &v1alpha1.MediaSettingsList{}, "mediawebhooks.mediastack.dev": &v1alpha1.MediaWebhookList{},
	}
	list := lists[definition]
	if list == nil {
		return false
	}
	if err := r.List(r.ctx, list); err != nil {
		must(r.t, client.IgnoreNotFound(err))
		return false
	}
	return listLength(list) > 0
}

// leavesTheProtectedAccountOnly waits until the operator has released every other account. The protected
// one says what it waits for.
func (r *removal) leavesTheProtectedAccountOnly() {
	r.t.Helper()
	wait.UntilNone(r.t, func() string {
		names := r.names()
		if !slices.Equal(names, []string{"protected"}) {
			return fmt.Sprintf("the accounts are %v", names)
		}
		return ""
	})
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "protected"}}
	r.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeletionBlocked)
	if text := describe(object.Status.Conditions); !strings.Contains(text, "CustomResourceDefinition mediaaccounts.mediastack.dev is being deleted") || !strings.Contains(text, "deletionProtection") {
		r.t.Errorf("the protected account shows %s", text)
	}
}

func (r *removal) hasNoAccounts() {
	r.t.Helper()
	wait.UntilNone(r.t, func() string {
		if names := r.names(); len(names) > 0 {
			return fmt.Sprintf("the accounts are %v", names)
		}
		return ""
	})
}

// names returns the names of the MediaAccounts; none after their definition is gone.
func (r *removal) names() (names []string) {
	r.t.Helper()
	list := &v1alpha1.MediaAccountList{}
	must(r.t, client.IgnoreNotFound(r.List(r.ctx, list, client.InNamespace(r.namespace))))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// Without the definition nothing says that a tenant wanted the deletion: it waits, and the keys stay.
func TestDeletion_WaitsWhileTheDefinitionCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer int
		status metav1.Status
		reason string
	}{
		"the API server is away":   {http.StatusServiceUnavailable, metav1.Status{Reason: metav1.StatusReasonServiceUnavailable}, v1alpha1.ReasonKubernetesUnavailable},
		"a permission is missing":  {http.StatusForbidden, metav1.Status{Reason: metav1.StatusReasonForbidden}, v1alpha1.ReasonKubernetesDenied},
		"the credential has ended": {http.StatusUnauthorized, metav1.Status{Reason: metav1.StatusReasonUnauthorized}, v1alpha1.ReasonKubernetesUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, quiet, idle)
			var denies atomic.Bool
			denies.Store(true)
			b.transport = func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(request *http.Request) (*http.Response, error) {
					if !denies.Load() || !strings.HasSuffix(request.URL.Path, "/customresourcedefinitions/mediaaccounts.mediastack.dev") {
						return next.RoundTrip(request)
					}
					body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, c.status.Reason, c.answer)
					return &http.Response{StatusCode: c.answer, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)), Request: request}, nil
				})
			}
			b.run(b.config)
			object := b.readyAccount("demo", erasedAtOnce)
			bucket, key := object.Status.Bucket, b.secret("demo", "default").Data["apiKey"]
			must(t, b.Delete(b.ctx, object))
			b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)
			if !b.opens(key) {
				t.Error("the key has ended")
			}
			denies.Store(false)
			b.gone(object)
			b.hasNoBucket(bucket)
		})
	}
}
