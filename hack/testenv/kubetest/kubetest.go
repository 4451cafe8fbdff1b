// Package kubetest has the control planes of tests: one that all test processes share, and those of single tests. It is apart
// from hack/testenv because it links the clients of Kubernetes, which most tests do not use.
package kubetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
)

// fieldManager owns what Apply applies.
const fieldManager = "testenv"

// ControlPlane is etcd, an API server with the project's custom resource definitions, and a
// controller manager, which collects garbage and empties deleted namespaces.
type ControlPlane struct {
	t      testing.TB
	plane  *controlplane.ControlPlane
	shared bool
}

// Shared returns the control plane of the test process. Each test makes a namespace of
// its own, and changes nothing that belongs to the whole cluster.
func Shared(t testing.TB) *ControlPlane {
	t.Helper()
	plane, err := shared()
	if err != nil {
		t.Fatalf("the test needs an API server: %v", err)
	}
	return &ControlPlane{t: t, plane: plane, shared: true}
}

// New starts a control plane that only this test uses, which may kill its API server or
// delete definitions. It is stopped when the test ends.
func New(t testing.TB) *ControlPlane {
	t.Helper()
	dir := testenv.TempDir(t)
	plane, err := startControlPlane(t.Context(), testenv.Group(t), filepath.Join(dir, "kube"), dir)
	if err != nil {
		t.Fatalf("the test needs an API server: %v", err)
	}
	return &ControlPlane{t: t, plane: plane}
}

// Access returns an administrator's access to the API server, without a limit on the requests:
// tests of many objects measure the product, not the client's default limit.
func (p *ControlPlane) Access() *rest.Config {
	config := rest.CopyConfig(p.plane.Config)
	config.QPS = -1
	return config
}

// Shared reports whether other tests use the control plane, too.
func (p *ControlPlane) Shared() bool { return p.shared }

// Kubeconfig returns the path of an administrator's kubeconfig.
func (p *ControlPlane) Kubeconfig() string { return p.plane.Kubeconfig }

// Apply applies objects as an administrator. It returns when the custom resource definitions
// among them can be used.
func (p *ControlPlane) Apply(objects ...*unstructured.Unstructured) {
	p.t.Helper()
	if err := kubeapply.Apply(p.t.Context(), p.Access(), fieldManager, objects...); err != nil {
		p.t.Fatal(err)
	}
}

// ServiceAccountKubeconfig returns the path of a kubeconfig that acts as a service account, with
// what RBAC grants it and nothing else.
func (p *ControlPlane) ServiceAccountKubeconfig(namespace, name string) string {
	p.t.Helper()
	path, err := p.plane.ServiceAccountKubeconfig(p.t.Context(), namespace, name)
	if err != nil {
		p.t.Fatal(err)
	}
	return path
}

// KillAPIServer ends the API server as a crash would.
func (p *ControlPlane) KillAPIServer() { p.plane.APIServer.Kill() }

// StartAPIServer starts the API server again, at the address and with the credentials that it had.
func (p *ControlPlane) StartAPIServer() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.StartTimeout)
	defer cancel()
	if err := p.plane.RestartAPIServer(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// Access returns an administrator's access to the shared control plane.
func Access(t testing.TB) *rest.Config {
	t.Helper()
	return Shared(t).Access()
}

// ServiceAccountKubeconfig returns the path of a kubeconfig for the shared control plane.
func ServiceAccountKubeconfig(t testing.TB, namespace, name string) string {
	t.Helper()
	return Shared(t).ServiceAccountKubeconfig(namespace, name)
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

// ParseManifests returns the objects of a YAML text.
func ParseManifests(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kubeapply.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// Apply applies objects to the shared control plane as an administrator.
func Apply(t testing.TB, objects ...*unstructured.Unstructured) {
	t.Helper()
	Shared(t).Apply(objects...)
}

// access is how another process uses the shared control plane.
type access struct {
	Host, Token string
	Authority   []byte
}

// shared returns the control plane that the test processes share.
var shared, served = testenv.Share("/kubernetes", attach, func(ctx context.Context, group *servers.Group, dir string) (*controlplane.ControlPlane, error) {
	return startControlPlane(ctx, group, filepath.Join(dir, "kube"), dir)
}, func(plane *controlplane.ControlPlane) access {
	return access{Host: plane.Config.Host, Token: plane.Config.BearerToken, Authority: plane.Config.CAData}
})

// Served is for testenv.Serve: it serves the control plane to other test processes.
func Served(mux *http.ServeMux) { served(mux) }

// attach returns the control plane of another process. Its kubeconfigs are files of this one.
func attach(dir string, a access) (*controlplane.ControlPlane, error) {
	dir = filepath.Join(dir, "kube")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return controlplane.Attach(&rest.Config{Host: a.Host, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.Authority}}, dir)
}

func startControlPlane(ctx context.Context, group *servers.Group, dir, logDir string) (*controlplane.ControlPlane, error) {
	plane, err := controlplane.Start(ctx, group, controlplane.Config{Dir: dir, LogDir: logDir, Volatile: true})
	if err != nil {
		return nil, err
	}
	definitions, err := kubeapply.Read("crd/bases")
	if err != nil {
		return nil, fmt.Errorf("read the custom resource definitions: %w; run `make generate`", err)
	}
	if err := kubeapply.Apply(ctx, plane.Config, fieldManager, definitions...); err != nil {
		return nil, err
	}
	return plane, plane.StartControllers(ctx)
}
