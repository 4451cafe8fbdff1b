package operator

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"mediastack.dev/controllers/changes"
	"mediastack.dev/controllers/mediaaccount"
	"mediastack.dev/controllers/mediasettings"
	"mediastack.dev/controllers/reconcile"
)

// objects passes the requests of the watcher of changes to the controllers.
type objects struct {
	accounts *mediaaccount.Reconciler
	settings *mediasettings.Reconciler
}

var _ changes.Objects = objects{}

// RequestAccount implements changes.Objects.
func (o objects) RequestAccount(priority int, key types.NamespacedName) {
	o.accounts.Queue().Add(priority, ctrl.Request{NamespacedName: key})
}

// RequestSettings implements changes.Objects.
func (o objects) RequestSettings(ctx context.Context, priority int, key types.NamespacedName) {
	o.settings.Queue().Add(priority, o.settings.RequestsOf(ctx, key.Namespace, key.Name)...)
}

// RequestAll implements changes.Objects. The controller of accounts watches the runtime by itself.
func (o objects) RequestAll(ctx context.Context, source reconcile.Source) {
	if source == reconcile.Database || source == reconcile.ObjectStore {
		o.accounts.RequestAll(ctx)
	}
	if source == reconcile.Database {
		o.settings.RequestAll(ctx)
	}
}
