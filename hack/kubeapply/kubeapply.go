// Package kubeapply applies manifest files to an API server, as `kubectl apply --server-side` does.
// The dev stack and the tests use it.
package kubeapply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/setup"
)

const (
	servedTimeout = 30 * time.Second
	pollInterval  = 50 * time.Millisecond
)

// Read reads the objects of YAML files of config/ and of the YAML files of its directories, except
// kustomization.yaml.
func Read(paths ...string) ([]*unstructured.Unstructured, error) {
	root, err := setup.RepoRoot()
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		path = filepath.Join(root, "config", path)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files := []string{path}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			read, err := readFile(file)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			objects = append(objects, read...)
		}
	}
	return objects, nil
}

func readFile(path string) (objects []*unstructured.Unstructured, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Parse(file)
}

// Parse reads the objects of a YAML text.
func Parse(text io.Reader) (objects []*unstructured.Unstructured, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(text, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply applies objects under one field manager: namespaces first, then custom resource definitions,
// then the others, whose kinds the API server serves by then.
func Apply(ctx context.Context, config *rest.Config, manager string, objects ...*unstructured.Unstructured) error {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the server's own fairness is limit enough
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(x, y *unstructured.Unstructured) int { return rank(x) - rank(y) })
	for i, object := range objects {
		object = object.DeepCopy() // Apply updates it from the answer
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
		if i+1 == len(objects) || rank(objects[i+1]) > rank(object) {
			if err := waitServed(ctx, c.RESTMapper(), objects[:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	}
	return 2
}

// waitServed waits until the API server serves the kinds of the custom resource definitions among
// the objects.
func waitServed(ctx context.Context, mapper meta.RESTMapper, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
		err := wait.PollUntilContextTimeout(ctx, pollInterval, servedTimeout, true, func(context.Context) (bool, error) {
			_, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
			if meta.IsNoMatchError(err) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("wait until the API server serves %s: %w", object.GetName(), err)
		}
	}
	return nil
}
