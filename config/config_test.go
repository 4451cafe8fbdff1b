// Package config_test renders the kustomizations and checks that a real API server accepts
// every object.
package config_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const namespace = "mediastack-system"

// render runs `kubectl kustomize` on a folder of config/.
func render(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Kubectl(t), "kustomize", filepath.Join(testenv.RepoRoot(t), "config", folder)).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("render %s: %s", folder, exit.Stderr)
		}
		t.Fatal(err)
	}
	return kubetest.ParseManifests(t, string(out))
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(kubetest.Access(t), client.Options{Scheme: clientgoscheme.Scheme})
	must(t, err)
	return c
}

// as converts a rendered object to its type.
func as[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return typed
}

// pods returns the pod templates of the workloads, by the workload's name.
func pods(t *testing.T, objects []*unstructured.Unstructured) map[string]corev1.PodTemplateSpec {
	t.Helper()
	templates := map[string]corev1.PodTemplateSpec{}
	for _, object := range objects {
		switch object.GetKind() {
		case "Deployment":
			templates[object.GetName()] = as[appsv1.Deployment](t, object).Spec.Template
		case "CronJob":
			templates[object.GetName()] = as[batchv1.CronJob](t, object).Spec.JobTemplate.Spec.Template
		}
	}
	return templates
}

// prepare creates what pods and roles refer to: the namespace as rendered, which enforces the
// restricted standard, the priority class and the service accounts.
func prepare(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Namespace" || kind == "PriorityClass" || kind == "ServiceAccount" {
			if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object.DeepCopy())); err != nil {
				t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
}

func TestManifests_AreAcceptedByAnAPIServer(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, folder := range []string{"default", "samples"} {
		objects := render(t, folder)
		prepare(t, c, objects)
		for _, object := range objects {
			err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.DryRunAll, client.FieldOwner("config-test"), client.ForceOwnership)
			if err != nil {
				t.Errorf("%s: %s %s: %v", folder, object.GetKind(), object.GetName(), err)
			}
		}
	}
}

func TestPods_MeetTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	objects := render(t, "default")
	prepare(t, c, objects)
	templates := pods(t, objects)
	if len(templates) != 3 {
		t.Fatalf("there are %d workloads, want the operator, the runtime and the purge", len(templates))
	}
	for name, template := range templates {
		if err := dryRun(t.Context(), c, name, template); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The namespace does enforce it: a pod that requests more is rejected.
	lax := templates["mediastack-runtime"]
	yes := true
	lax.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = &yes
	if err := dryRun(t.Context(), c, "lax", lax); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a pod outside the standard gives %v", err)
	}
}

func dryRun(ctx context.Context, c client.Client, name string, template corev1.PodTemplateSpec) error {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels},
		Spec:       template.Spec,
	}
	return c.Create(ctx, pod, client.DryRunAll)
}

func TestPods_OnlyTheOperatorHasAKubernetesCredential(t *testing.T) {
	t.Parallel()
	objects := render(t, "default")
	for name, template := range pods(t, objects) {
		mounts := template.Spec.AutomountServiceAccountToken == nil || *template.Spec.AutomountServiceAccountToken
		for _, volume := range template.Spec.Volumes {
			if volume.Projected == nil {
				continue
			}
			mounts = mounts || slices.ContainsFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
		}
		if mounts != (name == "mediastack-operator") {
			t.Errorf("%s: mounts a token: %t", name, mounts)
		}
	}
	for _, object := range objects {
		var subjects []rbacv1.Subject
		switch object.GetKind() {
		case "ClusterRoleBinding":
			subjects = as[rbacv1.ClusterRoleBinding](t, object).Subjects
		case "RoleBinding":
			subjects = as[rbacv1.RoleBinding](t, object).Subjects
		}
		for _, subject := range subjects {
			if subject.Name != "mediastack-operator" {
				t.Errorf("%s %s grants rights to %s", object.GetKind(), object.GetName(), subject.Name)
			}
		}
	}
}

func TestPods_OperatorHasNoRuntimeSecrets(t *testing.T) {
	t.Parallel()
	operator := pods(t, render(t, "default"))["mediastack-operator"].Spec.Containers[0]
	for _, source := range operator.EnvFrom {
		if source.SecretRef != nil {
			t.Errorf("the operator has the whole Secret %s", source.SecretRef.Name)
		}
	}
	for _, env := range operator.Env {
		if strings.HasPrefix(env.Name, "SERVICE_SECRET") || strings.HasPrefix(env.Name, "SERVICE_SMTP") {
			t.Errorf("the operator has %s", env.Name)
		}
	}
}
