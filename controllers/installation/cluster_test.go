package installation

import (
	"context"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changedMeanwhile is a cluster whose ConfigMap another process has written since it was read.
type changedMeanwhile struct {
	client.Client
	data map[string]string
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

// Get implements client.Client.
func (c changedMeanwhile) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.ConfigMap).Data = c.data //nolint:forcetypeassert // nothing else is read
	return nil
}

// Create implements client.Client.
func (c changedMeanwhile) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return apierrors.NewAlreadyExists(configMaps, object.GetName())
}

// Update implements client.Client.
func (c changedMeanwhile) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	return apierrors.NewConflict(configMaps, object.GetName(), nil)
}

// The operator of the cluster sees that a take-over is committed, and writes the ConfigMap before the command does: the command ended with an
// error after it had succeeded.
func TestWrite_AcceptsTheSameRecordOfAnotherProcess(t *testing.T) {
	t.Parallel()
	record := Record{InstallationID: uuid.New(), ClusterUID: "cluster", Epoch: 2}
	same := map[string]string{keyInstallation: record.InstallationID.String(), keyCluster: "cluster", keyEpoch: "2"}
	for name, c := range map[string]struct {
		data map[string]string
		want bool
	}{
		"the same":        {same, true},
		"another epoch":   {map[string]string{keyInstallation: same[keyInstallation], keyCluster: "cluster", keyEpoch: "1"}, false},
		"another cluster": {map[string]string{keyInstallation: same[keyInstallation], keyCluster: "other", keyEpoch: "2"}, false},
		"no record":       {nil, false},
	} {
		for kind, existing := range map[string]*corev1.ConfigMap{"created": nil, "updated": {}} {
			err := cluster{client: changedMeanwhile{data: c.data}, namespace: "system"}.write(t.Context(), record, existing)
			if (err == nil) != c.want {
				t.Errorf("%s, when it is %s: %v", name, kind, err)
			}
		}
	}
}
