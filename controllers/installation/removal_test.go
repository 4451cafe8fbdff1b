package installation_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/controllers/installation"
)

// cluster answers reads of the parts of an operator.
type cluster struct {
	client.Reader
	deleted map[string]bool // by kind: true = it has a deletionTimestamp, false = it is gone
	failing map[string]error
}

// Get implements client.Reader.
func (c cluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if err := c.failing[kind]; err != nil {
		return err
	}
	deleting, deleted := c.deleted[kind]
	if deleted && !deleting {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	if deleting {
		object.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	}
	object.SetName(key.String())
	return nil
}

func TestRemoval_SeesEveryPart(t *testing.T) {
	t.Parallel()
	away := errors.New("the API server is away")
	for name, c := range map[string]struct {
		cluster    cluster
		deployment string
		want       string
		fails      bool
	}{
		"nothing is removed":                 {cluster{}, "mediastack-operator", "", false},
		"the definition is being deleted":    {cluster{deleted: map[string]bool{"CustomResourceDefinition": true}}, "", "CustomResourceDefinition mediaaccounts.mediastack.dev is being deleted", false},
		"the definition is gone":             {cluster{deleted: map[string]bool{"CustomResourceDefinition": false}}, "", "CustomResourceDefinition mediaaccounts.mediastack.dev is gone", false},
		"the namespace is being deleted":     {cluster{deleted: map[string]bool{"Namespace": true}}, "", "Namespace system is being deleted", false},
		"the Deployment is being deleted":    {cluster{deleted: map[string]bool{"Deployment": true}}, "mediastack-operator", "Deployment system/mediastack-operator is being deleted", false},
		"the Deployment is gone":             {cluster{deleted: map[string]bool{"Deployment": false}}, "mediastack-operator", "Deployment system/mediastack-operator is gone", false},
		"the operator has no Deployment":     {cluster{deleted: map[string]bool{"Deployment": false}}, "", "", false},
		"the definition cannot be read":      {cluster{failing: map[string]error{"CustomResourceDefinition": away}}, "", "", true},
		"the namespace cannot be read":       {cluster{failing: map[string]error{"Namespace": away}}, "", "", true},
		"the Deployment cannot be read":      {cluster{failing: map[string]error{"Deployment": away}}, "mediastack-operator", "", true},
		"it is known before a read can fail": {cluster{deleted: map[string]bool{"CustomResourceDefinition": true}, failing: map[string]error{"Namespace": away}}, "", "CustomResourceDefinition mediaaccounts.mediastack.dev is being deleted", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := installation.NewRemoval(c.cluster, "system", c.deployment).Find(t.Context())
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
