package charts_test

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// stores creates Secrets as CloudNativePG and AWS have them, and one with the server secret, and
// returns the values that name them.
func (c *cluster) stores() []string {
	c.t.Helper()
	access := testenv.S3(c.t)
	c.secret(c.namespace, "pg-app", map[string]string{"uri": testenv.Postgres(c.t), "username": "app"})
	c.secret(c.namespace, "media-s3", map[string]string{"AWS_ACCESS_KEY_ID": access.AccessKey, "AWS_SECRET_ACCESS_KEY": access.SecretKey})
	c.secret(c.namespace, "media-secret", map[string]string{"SERVICE_SECRET": strings.Repeat("0f", 32)})
	return []string{
		"--set=baseURL=http://media.test", "--set=s3.endpoint=" + access.Endpoint, "--set=s3.region=" + access.Region,
		"--set=database.secretName=pg-app,database.urlKey=uri",
		"--set=s3.secretName=media-s3,s3.accessKeyKey=AWS_ACCESS_KEY_ID,s3.secretKeyKey=AWS_SECRET_ACCESS_KEY",
		"--set=serverSecret.secretName=media-secret",
		"--set=settings.SERVICE_BUCKET_PREFIX=chart",
		"--set=runtime.imageWorkers.count=1",
	}
}

// A release with a ready account cannot be uninstalled. Without accounts it can, and keeps the
// definitions of the custom resources.
func TestInstall_ServesAnAccountAndIsUninstalledAfterIt(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t)
	c := newCluster(t, plane, namespace)
	for _, object := range kubetest.Manifests(t, "crd/bases") { // of testenv, which Helm would not take over
		must(t, c.Delete(t.Context(), object))
	}
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	wait.Until(c.t, "the definitions are gone", func() bool {
		return apierrors.IsNotFound(c.definition("mediaaccounts.mediastack.dev")) && apierrors.IsNotFound(c.definition("retainedmediaaccounts.mediastack.dev"))
	})
	access := []string{"--kubeconfig", plane.Kubeconfig(), "--namespace", namespace}
	values := c.stores()
	out, err := helm(t, append(append([]string{"install", release, chart(t)}, access...), values...)...)
	must(t, err)
	if !strings.Contains(out, "http://media.test") {
		t.Errorf("the notes are %s", out)
	}

	service := c.start(release)
	for host, want := range map[string]int{"mediastack-runtime.mediastack-system.svc": http.StatusUnauthorized, "other.example.org": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+service+"/mcp", strings.NewReader("{}"))
		must(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("/mcp answers the host %s with %d, want %d", host, response.StatusCode, want)
		}
	}
	check, _ := podSpec(t, find(t, objects(t, values...), "Pod", release+"-test"))
	check.Containers[0].Args = check.Containers[0].Args[:1] // without the name of the Service, which only a cluster resolves
	if code, out := c.command("mediastack-runtime", check.Containers[0]); code != 0 || !strings.Contains(out, "nothing is missing") {
		t.Errorf("the preflight exits with %d: %s", code, out)
	}
	object := c.ready("team-a", "demo")
	if !strings.HasPrefix(object.Status.Bucket, "chart-") {
		t.Errorf("the bucket is %s: the operator does not have the settings of the runtime", object.Status.Bucket)
	}
	purge := c.pod(&batchv1.CronJob{}, release+"-purge").Containers[0]
	if code, out := c.command("mediastack-runtime", purge); code != 0 {
		t.Errorf("the purge exits with %d: %s", code, out)
	}

	if out, err := c.uninstall(release, release); err == nil {
		t.Fatalf("a release with a MediaAccount is uninstalled: %s", out)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-operator"}, &appsv1.Deployment{}); err != nil {
		t.Fatalf("the operator after an uninstallation that failed: %v", err)
	}
	upgrade := append(append([]string{"upgrade", release, chart(t)}, access...), values...)
	if _, err := helm(t, upgrade...); err == nil || !strings.Contains(err.Error(), "has no deployed releases") {
		t.Errorf("an upgrade after an uninstallation that failed: %v", err)
	}
	_, err = helm(t, append([]string{"rollback", release, "1"}, access...)...)
	must(t, err)
	_, err = helm(t, upgrade...)
	must(t, err)
	must(t, c.Delete(t.Context(), object))
	wait.Until(c.t, "the MediaAccount is deleted", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	})
	if out, err := c.uninstall(release, release); err != nil {
		t.Fatalf("a release without a MediaAccount: %v%s", err, out)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-operator"}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the operator after the uninstallation: %v", err)
	}
	must(t, c.definition("mediaaccounts.mediastack.dev"))
}

// definition reads a custom resource definition.
func (c *cluster) definition(name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return c.Get(c.t.Context(), client.ObjectKey{Name: name}, object)
}

// terminating reports whether a custom resource definition is being deleted.
func (c *cluster) terminating(name string) bool {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return c.Get(c.t.Context(), client.ObjectKey{Name: name}, object) == nil && !object.GetDeletionTimestamp().IsZero()
}

// uninstall uninstalls a release, and does what the controller of Jobs and the kubelet do with the
// hook's Job.
func (c *cluster) uninstall(release, fullname string) (string, error) {
	c.t.Helper()
	ended := make(chan error, 1)
	var out string
	go func() {
		var err error
		out, err = helm(c.t, "uninstall", release, "--kubeconfig", c.plane.Kubeconfig(), "--namespace", c.namespace)
		ended <- err
	}()
	c.runUninstallJob(fullname)
	return out, <-ended
}

func (c *cluster) runUninstallJob(fullname string) {
	c.t.Helper()
	job := &batchv1.Job{}
	wait.Until(c.t, "Helm creates the hook's Job", func() bool {
		err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: fullname + "-uninstall"}, job)
		return err == nil && job.Status.StartTime == nil && job.DeletionTimestamp == nil
	})
	pod := job.Spec.Template.Spec
	code, out := c.command("mediastack-operator", pod.Containers[0], "KUBECONFIG="+c.plane.ServiceAccountKubeconfig(c.namespace, pod.ServiceAccountName))
	now := metav1.Now()
	job.Status.StartTime = &now
	condition := func(kind batchv1.JobConditionType) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: now})
	}
	switch code {
	case 0:
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
		condition(batchv1.JobSuccessCriteriaMet)
		condition(batchv1.JobComplete)
	case 3:
		if !strings.Contains(out, "`helm rollback RELEASE REVISION` makes the release usable again") {
			c.t.Errorf("uninstall --check does not say what makes the release usable again: %s", out)
		}
		job.Status.Failed = 1
		condition(batchv1.JobFailureTarget)
		condition(batchv1.JobFailed)
	default:
		c.t.Fatalf("uninstall --check exits with %d: %s", code, out)
	}
	must(c.t, c.Status().Update(c.t.Context(), job))
}

// The operator's account may read Secrets of the whole cluster, since RBAC knows no labels. The
// admission policy rejects that it changes those of others.
func TestAdmission_OperatorChangesSecretsOfMediaAccountsOnly(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t)
	c := newCluster(t, plane, namespace)
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	all := objects(t, c.stores()...)
	plane.Apply(all...)
	c.start(release)
	operator := c.as(plane.ServiceAccountKubeconfig(namespace, release+"-operator"))

	c.secret("team-a", "foreign", map[string]string{"password": "a"})
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "foreign"}}
	must(t, operator.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	denied := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "the operator may")
	}
	label := map[string]string{v1alpha1.LabelAccount: "demo"}
	wait.Until(c.t, "the policy is in force", func() bool { return denied(operator.Delete(t.Context(), foreign, client.DryRunAll)) })
	changed := foreign.DeepCopy()
	changed.Labels = label
	made := func(labels map[string]string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "made", Labels: labels, Annotations: map[string]string{"kubernetes.io/service-account.name": "default"}}, Type: kind}
	}
	for what, err := range map[string]error{
		"deleting a foreign Secret":  operator.Delete(t.Context(), foreign),
		"labelling a foreign Secret": operator.Update(t.Context(), changed),
		"a Secret without the label": operator.Create(t.Context(), made(nil, corev1.SecretTypeOpaque)),
		"a token":                    operator.Create(t.Context(), made(label, corev1.SecretTypeServiceAccountToken)),
	} {
		if !denied(err) {
			t.Errorf("%s: %v", what, err)
		}
	}

	// What the operator does with the Secrets of its accounts works: it writes one, repairs one that
	// lost its label, and deletes it.
	object := c.ready("team-a", "demo")
	key := client.ObjectKey{Namespace: "team-a", Name: v1alpha1.SecretName(object.Name, "default")}
	own := &corev1.Secret{}
	must(t, c.Get(t.Context(), key, own))
	own.Labels = nil
	must(t, c.Update(t.Context(), own))
	wait.Until(c.t, "the Secret has its label again", func() bool {
		must(t, c.Get(t.Context(), key, own))
		return own.Labels[v1alpha1.LabelAccount] == object.Name
	})
	must(t, c.Delete(t.Context(), object))
	wait.Until(c.t, "the Secret is deleted", func() bool { return apierrors.IsNotFound(c.Get(t.Context(), key, own)) })
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
}

// With watchNamespaces the operator works with the rights in these namespaces alone.
func TestNamespacedMode_OperatorReachesItsNamespacesOnly(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t) // retained accounts belong to no namespace
	c := newCluster(t, plane, "scoped-system")
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "scoped-gone"}}
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "scoped-team"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "scoped-other"}}, gone)
	_, err := helm(t, append([]string{"install", "scoped", chart(t), "--kubeconfig", plane.Kubeconfig(), "--namespace", c.namespace, "--set=crds.install=false,watchNamespaces={scoped-team,scoped-gone}"}, c.stores()...)...)
	must(t, err)
	const fullname = "scoped-mediastack"
	c.start(fullname)
	object := c.ready("scoped-team", "demo")

	operator := c.as(plane.ServiceAccountKubeconfig(c.namespace, fullname+"-operator"))
	c.secret("scoped-other", "foreign", map[string]string{"password": "a"})
	c.create(&v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "scoped-other", Name: "other"}})
	for what, err := range map[string]error{
		"reading a Secret of another namespace":       operator.Get(t.Context(), client.ObjectKey{Namespace: "scoped-other", Name: "foreign"}, &corev1.Secret{}),
		"listing the Secrets of the cluster":          operator.List(t.Context(), &corev1.SecretList{}),
		"reading a MediaAccount of another namespace": operator.Get(t.Context(), client.ObjectKey{Namespace: "scoped-other", Name: "other"}, &v1alpha1.MediaAccount{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}

	// The operator may read what says that it is not being removed: else it would delete no media.
	erased := c.ready("scoped-team", "erased")
	base := client.MergeFrom(erased.DeepCopy())
	erased.Spec.DeletionPolicy, erased.Spec.DeleteAfter = v1alpha1.DeletionDelete, &metav1.Duration{}
	must(t, c.Patch(t.Context(), erased, base))
	must(t, c.Delete(t.Context(), erased))
	wait.Until(c.t, "the account is erased", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(erased), erased))
	})

	if out, err := c.uninstall("scoped", fullname); err == nil {
		t.Fatalf("a release with a MediaAccount is uninstalled: %s", out)
	}
	must(t, c.Delete(t.Context(), object))
	wait.Until(c.t, "the account is retained", func() bool {
		kept := &v1alpha1.RetainedMediaAccountList{}
		must(t, c.List(t.Context(), kept))
		return len(kept.Items) == 1 && apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	})
	// A namespace is deleted as the controller of namespaces does it, which does not run here.
	for _, kind := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		must(t, c.DeleteAllOf(t.Context(), kind, client.InNamespace(gone.Name)))
	}
	must(t, c.Delete(t.Context(), gone))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone))
	gone.Spec.Finalizers = nil
	must(t, c.SubResource("finalize").Update(t.Context(), gone))
	if out, err := c.uninstall("scoped", fullname); err != nil {
		t.Errorf("with MediaAccounts of other namespaces only, and without a namespace of the list: %v%s", err, out)
	}
}
