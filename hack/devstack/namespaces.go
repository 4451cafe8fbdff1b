package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// finalizeEvery is the pause between two passes over the namespaces.
const finalizeEvery = time.Second

// namespaceFinalizer completes the deletion of namespaces, as kube-controller-manager does
// where there is one. The dev stack has none, and a deleted namespace would stay in
// Terminating.
type namespaceFinalizer struct {
	namespaces corev1client.NamespaceInterface
	discovery  discovery.DiscoveryInterface
	objects    metadata.Interface
}

func newNamespaceFinalizer(config *rest.Config) (*namespaceFinalizer, error) {
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &namespaceFinalizer{namespaces: core.Namespaces(), discovery: found, objects: objects}, nil
}

// run makes a pass every finalizeEvery until ctx ends. It reports an error once for as
// long as it lasts.
func (f *namespaceFinalizer) run(ctx context.Context, report func(format string, args ...any)) {
	reported := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		failure := ""
		if err := f.pass(ctx); err != nil {
			failure = err.Error()
		}
		if failure != "" && failure != reported && ctx.Err() == nil {
			report("%s", failure)
		}
		reported = failure
	}, finalizeEvery)
}

// pass deletes the objects of every terminating namespace, and completes the deletion of
// those that are empty.
func (f *namespaceFinalizer) pass(ctx context.Context) error {
	namespaces, err := f.namespaces.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the namespaces: %w", err)
	}
	var failures []error
	for i := range namespaces.Items {
		namespace := &namespaces.Items[i]
		if namespace.DeletionTimestamp == nil {
			continue
		}
		if err := f.finalize(ctx, namespace); err != nil {
			failures = append(failures, fmt.Errorf("delete the namespace %s: %w", namespace.Name, err))
		}
	}
	return errors.Join(failures...)
}

// finalize deletes what is in a namespace, and removes the finalizer "kubernetes" when
// nothing is left. The API server admits no new objects into a terminating namespace.
func (f *namespaceFinalizer) finalize(ctx context.Context, namespace *corev1.Namespace) error {
	// An error hides the resources of a group: the namespace may not be empty.
	lists, err := f.discovery.ServerPreferredNamespacedResources()
	if err != nil {
		return err
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists))
	if err != nil {
		return err
	}
	left := 0
	for resource := range resources {
		n, err := f.deleteAll(ctx, resource, namespace.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", resource.GroupResource(), err)
		}
		left += n
	}
	if left > 0 {
		return nil
	}
	namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers, func(name corev1.FinalizerName) bool { return name == corev1.FinalizerKubernetes })
	_, err = f.namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// deleteAll deletes the objects of a resource, and returns how many it found. Those with
// finalizers stay until their controllers have removed these.
func (f *namespaceFinalizer) deleteAll(ctx context.Context, resource schema.GroupVersionResource, namespace string) (found int, err error) {
	objects := f.objects.Resource(resource).Namespace(namespace)
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, object := range list.Items {
		if object.DeletionTimestamp != nil {
			continue
		}
		if err := objects.Delete(ctx, object.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	return len(list.Items), nil
}

// waitDeleted waits until a namespace that is terminating is gone. It returns at once
// when the namespace is not terminating, or does not exist.
func (f *namespaceFinalizer) waitDeleted(ctx context.Context, name string) error {
	return wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		namespace, err := f.namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && namespace.DeletionTimestamp == nil, err
	})
}
