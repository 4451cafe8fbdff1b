package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
)

const (
	// currentContext is the value of --cluster for the current context of the kubeconfig.
	currentContext = "1"
	// markerName is the name of the ConfigMap, in the operator's namespace, that says which stack a cluster belongs to.
	markerName = "mediastack-dev"
	// markerDir is the key of the stack's data directory.
	markerDir = "dataDirectory"
	// clusterKubeconfig is the file in the data directory with the access to the cluster.
	clusterKubeconfig = "kubernetes/kubeconfig"
	// reachTimeout is how long an API server may take for its first answer.
	reachTimeout = 15 * time.Second
)

// definitionNames are the names of the custom resource definitions of the manifests.
var definitionNames = []string{"mediaaccounts.mediastack.dev", "mediasettings.mediastack.dev", "mediawebhooks.mediastack.dev", "retainedmediaaccounts.mediastack.dev"}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// manifests are the files of config/ that a stack applies, but for the samples.
var manifests = []string{"default/namespace.yaml", "crd/bases", "admission", "rbac"}

// clusterContext reads the kubeconfig of the caller ($KUBECONFIG, else ~/.kube/config), and returns one with the named
// context alone, and its name.
func clusterContext(name string) (*api.Config, string, error) {
	overrides := &clientcmd.ConfigOverrides{}
	if name != currentContext {
		overrides.CurrentContext = name
	}
	raw, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), overrides).RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if name != currentContext {
		raw.CurrentContext = name
	}
	if _, ok := raw.Contexts[raw.CurrentContext]; !ok {
		if raw.CurrentContext == "" {
			return nil, "", errors.New("the kubeconfig has no current context; choose one with CLUSTER=NAME")
		}
		return nil, "", fmt.Errorf("the kubeconfig has no context %q; `kubectl config get-contexts` lists them", raw.CurrentContext)
	}
	if err := errors.Join(api.MinifyConfig(&raw), api.FlattenConfig(&raw)); err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return &raw, raw.CurrentContext, nil
}

// useCluster takes a cluster instead of a control plane of the stack's own. It changes nothing in one that has another
// installation.
func (s *stack) useCluster(ctx context.Context) error {
	kubeconfig, name, err := clusterContext(s.state.Cluster)
	if err != nil {
		return err
	}
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.data.path("kubernetes"), 0o700); err != nil {
		return err
	}
	path := s.data.path(clusterKubeconfig)
	if err := servers.WritePrivate(path, content); err != nil {
		return err
	}
	if s.kube, err = controlplane.Use(path); err != nil {
		return err
	}
	s.progress.Printf("the cluster is that of the context %s (%s)", name, s.kube.Config.Host)
	cluster, err := newClusterClient(s.kube.Config)
	if err != nil {
		return err
	}
	return cluster.claim(ctx, name, s.data.dir)
}

// chooseCluster returns the context of the cluster that the stack uses, if any. It can't change: the rows in the
// database belong to the objects in the cluster.
func (s *stack) chooseCluster(fresh bool) (string, error) {
	if s.Cluster == "" {
		return s.state.Cluster, nil
	}
	_, name, err := clusterContext(s.Cluster)
	if err == nil && !fresh && name != s.state.Cluster {
		used := "a control plane of its own"
		if s.state.Cluster != "" {
			used = "the cluster " + s.state.Cluster
		}
		return "", fmt.Errorf("the stack in %s uses %s: run `make clean` first, or choose another folder with MEDIASTACK_DATA", s.data.dir, used)
	}
	return name, err
}

// releaseCluster removes what the stack of the data directory has applied to a cluster.
// It reports false if there is nothing of it.
func releaseCluster(ctx context.Context, data *dataDir, timeout time.Duration) (bool, error) {
	kube, err := controlplane.Use(data.path(clusterKubeconfig))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // no run came so far
	}
	if err != nil {
		return false, err
	}
	cluster, err := newClusterClient(kube.Config)
	if err != nil {
		return false, err
	}
	return cluster.release(ctx, data.dir, timeout)
}

// clusterClient changes a cluster that a stack uses.
type clusterClient struct{ client.Client }

func newClusterClient(config *rest.Config) (clusterClient, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	return clusterClient{c}, err
}

// claim marks the cluster as that of a data directory. It fails if something is in the cluster that the stack would
// overwrite: another installation, or a namespace of one of its names.
func (c clusterClient) claim(ctx context.Context, name, dir string) error {
	reach, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: markerName}}
	err := c.Get(reach, client.ObjectKeyFromObject(marker), marker)
	if err == nil {
		if owner := marker.Data[markerDir]; owner != dir {
			return fmt.Errorf("the cluster %s is in use by the stack in %s: run `make clean` there first", name, owner)
		}
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look into the cluster %s: %w", name, err)
	}
	overwritten := []client.Object{namespaceObject(operatorNamespace), namespaceObject(sampleNamespace)}
	for _, definition := range definitionNames {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(definitionKind)
		object.SetName(definition)
		overwritten = append(overwritten, object)
	}
	for _, object := range overwritten {
		found, err := c.exists(reach, object)
		if err != nil {
			return fmt.Errorf("look into the cluster %s: %w", name, err)
		}
		if found {
			return fmt.Errorf("the cluster %s has %s already, which is not of this stack, and is left alone: choose another cluster", name, object.GetName())
		}
	}
	marker.Data = map[string]string{markerDir: dir}
	for _, object := range []client.Object{namespaceObject(operatorNamespace), marker} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("mark the cluster %s as that of this stack: %w", name, err)
		}
	}
	return nil
}

func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (c clusterClient) exists(ctx context.Context, object client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
	return err == nil, client.IgnoreNotFound(err)
}

// release removes from a cluster what the stack in dir has applied, and all objects of its definitions. The data is
// removed with it, so finalizers, for which no operator runs any more, would protect nothing. The namespace with the
// marker comes last: what was interrupted is completed by the next call.
func (c clusterClient) release(ctx context.Context, dir string, timeout time.Duration) (bool, error) {
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: markerName}}
	if found, err := c.exists(ctx, marker); err != nil || !found || marker.Data[markerDir] != dir {
		return false, err
	}
	objects, err := kubeapply.Read(append(slices.Clone(manifests), "samples")...)
	if err != nil {
		return false, err
	}
	slices.Reverse(objects)
	var definitions, others []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == definitionKind.Kind {
			definitions = append(definitions, object)
		} else {
			others = append(others, object)
		}
	}
	for _, definition := range definitions {
		if err := c.removeDefinition(ctx, definition, timeout); err != nil {
			return false, err
		}
	}
	for _, object := range others {
		if err := c.remove(ctx, object, timeout); err != nil {
			return false, err
		}
	}
	return true, nil
}

// removeDefinition deletes a custom resource definition with its objects.
func (c clusterClient) removeDefinition(ctx context.Context, definition *unstructured.Unstructured, timeout time.Duration) error {
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: v1alpha1.GroupVersion.Version, Kind: kind})
	if err := c.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list the objects of %s: %w", definition.GetName(), err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		object.SetFinalizers(nil)
		if err := client.IgnoreNotFound(c.Update(ctx, object)); err != nil {
			return fmt.Errorf("release the %s %s: %w", kind, client.ObjectKeyFromObject(object), err)
		}
	}
	return c.remove(ctx, definition, timeout)
}

// remove deletes an object, and waits until it is gone.
func (c clusterClient) remove(ctx context.Context, object *unstructured.Unstructured, timeout time.Duration) error {
	name := fmt.Sprintf("%s %s", object.GetKind(), client.ObjectKeyFromObject(object))
	if err := c.Delete(ctx, object); err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("delete the %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, pollEvery, timeout, true, func(ctx context.Context) (bool, error) {
		found, err := c.exists(ctx, object)
		return !found, err
	})
	if err != nil {
		return fmt.Errorf("wait until the %s is gone: %w", name, err)
	}
	return nil
}
