package installation

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accountDefinition is the name of the definition of MediaAccounts; config/rbac allows this one.
const accountDefinition = "mediaaccounts.mediastack.dev"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=mediaaccounts.mediastack.dev,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Removal finds out whether the operator is being removed from the cluster: then a deleted MediaAccount
// does not say that its tenant's media may be deleted.
type Removal struct {
	reader     client.Reader
	namespace  string
	deployment string
}

// NewRemoval returns a Removal of the operator that runs in a namespace. deployment is the name of its
// Deployment; empty if it has none. reader must read from the API server: a cache may have the deletion of
// a MediaAccount before that of its definition.
func NewRemoval(reader client.Reader, namespace, deployment string) *Removal {
	return &Removal{reader: reader, namespace: namespace, deployment: deployment}
}

// Find returns what is removed, as the beginning of a sentence; empty if nothing is. An error says that
// it is not known.
//
// Call it after the deletionTimestamp of a MediaAccount was seen. The API server deletes the objects of a
// definition after the definition has its own deletionTimestamp, and removes the definition after them, so
// that a read that begins later sees one or the other.
func (r *Removal) Find(ctx context.Context) (string, error) {
	for _, part := range r.parts() {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(part.kind)
		err := r.reader.Get(ctx, part.key, object)
		switch {
		case apierrors.IsNotFound(err):
			return part.String() + " is gone", nil
		case err != nil:
			return "", fmt.Errorf("read %s: %w", part, err)
		case !object.DeletionTimestamp.IsZero():
			return part.String() + " is being deleted", nil
		}
	}
	return "", nil
}

// removalPart is an object whose deletion removes the operator.
type removalPart struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

func (p removalPart) String() string {
	if p.key.Namespace == "" {
		return p.kind.Kind + " " + p.key.Name
	}
	return p.kind.Kind + " " + p.key.String()
}

func (r *Removal) parts() []removalPart {
	parts := []removalPart{
		{schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, client.ObjectKey{Name: accountDefinition}},
		{corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: r.namespace}},
	}
	if r.deployment != "" {
		parts = append(parts, removalPart{appsv1.SchemeGroupVersion.WithKind("Deployment"), client.ObjectKey{Namespace: r.namespace, Name: r.deployment}})
	}
	return parts
}
