package testenv

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
)

// fieldManager owns what Apply applies.
const fieldManager = "testenv"

// Kubernetes returns an administrator's access to an API server that has the project's custom
// resource definitions. Each test makes a namespace of its own, and must not wait for one to be
// deleted: there is no controller manager.
func Kubernetes(t testing.TB) *rest.Config {
	t.Helper()
	config := rest.CopyConfig(controlPlane(t).Config)
	config.QPS = -1 // tests of many objects measure the product, not the client's default limit
	return config
}

func controlPlane(t testing.TB) *servers.Kubernetes {
	t.Helper()
	plane, err := kubernetes()
	if err != nil {
		t.Fatalf("the test needs an API server: %v", err)
	}
	return plane
}

// ServiceAccountKubeconfig returns the path of a kubeconfig that acts as a service account, with what
// RBAC grants it and nothing else.
func ServiceAccountKubeconfig(t testing.TB, namespace, name string) string {
	t.Helper()
	path, err := controlPlane(t).ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Manifests returns the objects of files and directories of config/.
func Manifests(t testing.TB, paths ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kubeapply.Read(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// Apply applies objects to the API server as an administrator. It returns when the custom resource
// definitions among them can be used.
func Apply(t testing.TB, objects ...*unstructured.Unstructured) {
	t.Helper()
	if err := kubeapply.Apply(t.Context(), Kubernetes(t), fieldManager, objects...); err != nil {
		t.Fatal(err)
	}
}

func startKubernetes(ctx context.Context, e *environment) (*servers.Kubernetes, error) {
	plane, err := e.group.StartKubernetes(ctx, servers.KubernetesConfig{Dir: e.path("kube"), LogDir: e.dir, Volatile: true})
	if err != nil {
		return nil, err
	}
	definitions, err := kubeapply.Read("crd/bases")
	if err != nil {
		return nil, fmt.Errorf("read the custom resource definitions: %w; run `make generate`", err)
	}
	return plane, kubeapply.Apply(ctx, plane.Config, fieldManager, definitions...)
}
