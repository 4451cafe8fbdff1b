package operator

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/controllers/changes"
	"mediastack.dev/controllers/mediaaccount"
	"mediastack.dev/controllers/mediasettings"
	"mediastack.dev/controllers/mediawebhook"
	"mediastack.dev/controllers/reconcile"
)

// objects passes the requests of the watcher of changes to the controllers.
type objects struct {
	accounts *mediaaccount.Reconciler
	settings *mediasettings.Reconciler
	webhooks *mediawebhook.Reconciler
}

var _ changes.Objects = objects{}

// RequestAccount implements changes.Objects. The webhooks that wait for the journal of the account are requested, too.
func (o objects) RequestAccount(ctx context.Context, priority int, key types.NamespacedName, version int64) bool {
	o.webhooks.RequestWaiting(ctx, priority, key)
	return o.accounts.Request(ctx, priority, key, version)
}

// RequestSettings implements changes.Objects.
func (o objects) RequestSettings(ctx context.Context, priority int, key types.NamespacedName, version int64) bool {
	return o.settings.RequestOf(ctx, priority, key, version)
}

// RequestAll implements changes.Objects. The controller of accounts watches the runtime by itself.
func (o objects) RequestAll(ctx context.Context, source reconcile.Source) {
	if source == reconcile.Database || source == reconcile.ObjectStore {
		o.accounts.RequestAll(ctx)
	}
	if source == reconcile.Database {
		o.settings.RequestAll(ctx)
		o.webhooks.RequestAll(ctx)
	}
}
