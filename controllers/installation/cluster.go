package installation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/runtime/installation"
)

// ConfigMapName is the name of the ConfigMap beside the operator; config/rbac allows this one.
const ConfigMapName = "mediastack-installation"

// Keys of the ConfigMap.
const (
	keyInstallation = "installationID"
	keyCluster      = "clusterUID"
	keyEpoch        = "epoch"
)

// cluster reads and writes what the Kubernetes API has of the installation.
type cluster struct {
	client    client.Client // uncached
	namespace string        // of the operator
	watched   []string      // namespaces of the MediaAccounts; empty = all
}

// searched returns the namespaces to list MediaAccounts in: the permissions of an operator that
// watches some namespaces do not reach the others.
func (c cluster) searched() []string {
	if len(c.watched) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return c.watched
}

// deleted reports whether a namespace does not exist.
func (c cluster) deleted(ctx context.Context, name string) bool {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return apierrors.IsNotFound(c.client.Get(ctx, client.ObjectKey{Name: name}, namespace))
}

// uid returns the UID of the namespace kube-system, which identifies the cluster.
func (c cluster) uid(ctx context.Context) (string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// record reads the ConfigMap. Both results are nil if there is none.
func (c cluster) record(ctx context.Context) (*Record, *corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: ConfigMapName}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read ConfigMap %s/%s: %w", c.namespace, ConfigMapName, err)
	}
	id, err := uuid.Parse(found.Data[keyInstallation])
	if err == nil && id == uuid.Nil {
		err = errors.New("the id is zero")
	}
	epoch, epochErr := strconv.ParseInt(found.Data[keyEpoch], 10, 64)
	if err != nil || epochErr != nil || epoch < 1 || epoch > installation.MaxCounter || found.Data[keyCluster] == "" {
		return nil, found, mismatchError{fmt.Sprintf("ConfigMap %s/%s is not valid: it must have a UUID in %s, a UID in %s and a number from 1 to %d in %s; correct it, or delete it and the operator writes it again",
			c.namespace, ConfigMapName, keyInstallation, keyCluster, installation.MaxCounter, keyEpoch)}
	}
	return &Record{InstallationID: id, ClusterUID: found.Data[keyCluster], Epoch: epoch}, found, nil
}

// write makes the ConfigMap have this record. existing is the ConfigMap as it was read; nil if
// there was none. It fails if the ConfigMap was changed meanwhile, unless it has the record then: the operator of the cluster writes it
// as soon as a take-over is committed, and so does the take-over.
func (c cluster) write(ctx context.Context, record Record, existing *corev1.ConfigMap) error {
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.namespace, Name: ConfigMapName,
		Labels: map[string]string{"app.kubernetes.io/name": "mediastack", "app.kubernetes.io/component": "operator"},
	}}
	if existing != nil {
		next = existing.DeepCopy()
	}
	next.Data = maps.Clone(next.Data)
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Data[keyInstallation] = record.InstallationID.String()
	next.Data[keyCluster] = record.ClusterUID
	next.Data[keyEpoch] = strconv.FormatInt(record.Epoch, 10)
	var err error
	if existing == nil {
		err = c.client.Create(ctx, next)
	} else {
		err = c.client.Update(ctx, next)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		if now, _, readErr := c.record(ctx); readErr == nil && now != nil && *now == record {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", c.namespace, ConfigMapName, err)
	}
	return nil
}

// defaultNamespace is the namespace in the manifests.
const defaultNamespace = "mediastack-system"

// OwnNamespace returns the namespace of the pod that this process runs in; outside of a pod,
// that of the manifests.
func OwnNamespace() string {
	if name, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil && len(name) > 0 {
		return strings.TrimSpace(string(name))
	}
	return defaultNamespace
}
