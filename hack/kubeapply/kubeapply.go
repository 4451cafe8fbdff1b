// Package kubeapply applies manifest files to an API server, as `kubectl apply --server-side` does.
// The dev stack and the test helpers use it.
package kubeapply

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	establishTimeout = 30 * time.Second
	pollEvery        = 50 * time.Millisecond
)

// Applier applies objects under one field manager.
type Applier struct {
	client  dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	manager string
}

// New makes an Applier. The manager is the owner that server-side apply writes down.
func New(config *rest.Config, manager string) (*Applier, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the server's own fairness is limit enough
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	return &Applier{client: client, mapper: mapper, manager: manager}, nil
}

// Read reads the objects of YAML files and of the YAML files of folders; kustomization.yaml is none.
func Read(paths ...string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files := []string{path}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return nil, err
			}
			slices.Sort(files)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			more, err := readFile(file)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			objects = append(objects, more...)
		}
	}
	return objects, nil
}

func readFile(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply applies objects: namespaces and custom resource definitions first, the rest once these can
// be used.
func (a *Applier) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(x, y *unstructured.Unstructured) int { return rank(x) - rank(y) })
	for i, object := range objects {
		if err := a.apply(ctx, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), qualifiedName(object), err)
		}
		if last := i+1 == len(objects) || rank(objects[i+1]) > rank(object); last && isDefinition(object) {
			if err := a.waitEstablished(ctx, objects[:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func rank(object *unstructured.Unstructured) int {
	switch {
	case object.GetKind() == "Namespace":
		return 0
	case isDefinition(object):
		return 1
	}
	return 2
}

func isDefinition(object *unstructured.Unstructured) bool {
	return object.GetKind() == "CustomResourceDefinition"
}

func qualifiedName(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

func (a *Applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := a.resource(ctx, object)
	if err != nil {
		return err
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: a.manager, Force: true})
	return err
}

// resource finds where an object lives. A kind that was defined a moment ago may take another to show.
func (a *Applier) resource(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	err := wait.PollUntilContextTimeout(ctx, pollEvery, establishTimeout, true, func(context.Context) (bool, error) {
		var err error
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			// What was learned a moment ago counts as fresh and would be believed for good.
			a.mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("the API server doesn't know %s: %w", kind, err)
	}
	client := a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return client.Namespace(namespace), nil
}

func (a *Applier) waitEstablished(ctx context.Context, objects []*unstructured.Unstructured) error {
	definitions := a.client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	for _, object := range objects {
		if !isDefinition(object) {
			continue
		}
		err := wait.PollUntilContextTimeout(ctx, pollEvery, establishTimeout, true, func(ctx context.Context) (bool, error) {
			current, err := definitions.Get(ctx, object.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return HasCondition(current, "Established"), nil
		})
		if err != nil {
			return fmt.Errorf("wait until %s can be used: %w", object.GetName(), err)
		}
	}
	a.mapper.Reset()
	return nil
}

// HasCondition reports whether a condition in an object's status is True.
func HasCondition(object *unstructured.Unstructured, kind string) bool {
	status, _, _ := Condition(object, kind)
	return status == "True"
}

// Condition reads a condition in an object's status; all three are empty where there is none.
func Condition(object *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok || condition["type"] != kind {
			continue
		}
		status, _ = condition["status"].(string)
		reason, _ = condition["reason"].(string)
		message, _ = condition["message"].(string)
	}
	return status, reason, message
}
