package mediasettings

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/settings"
)

// pin fixes the fields of the spec for the account.
func (r *Reconciler) pin(ctx context.Context, run *run) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := r.settings.Pin(ctx, run.accountID, layerOf(run.object.Spec), run.by())
	if fault.Is(err, fault.NotFound) {
		run.seen.waiting = "The account is not in the database"
		return false
	}
	run.seen.failure = status.Fail(status.Database, err)
	return err == nil
}

// unpin takes back what this object pinned, if it did. Nothing is pinned for an
// account that is not there.
func (r *Reconciler) unpin(ctx context.Context, run *run) bool {
	if run.accountID == uuid.Nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := r.settings.Unpin(ctx, run.accountID, run.by())
	if err == nil || fault.Is(err, fault.NotFound) {
		return true
	}
	run.seen.failure = status.Fail(status.Database, err)
	return false
}

// readLayers reads what holds now, the tenant's choices included.
func (r *Reconciler) readLayers(ctx context.Context, run *run) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	layers, err := r.settings.Get(ctx, run.accountID)
	if err != nil {
		run.seen.failure = status.Fail(status.Database, err)
		return false
	}
	run.seen.layers = &layers
	return true
}

// layerOf is the spec in the words of the settings package.
func layerOf(spec v1alpha1.MediaSettingsSpec) settings.Layer {
	return settings.Layer{
		UseWebP:           spec.UseWebP,
		WebPOutputQuality: number(spec.WebPOutputQuality),
		ThumbnailWidth:    number(spec.ThumbnailWidth),
		ThumbnailHeight:   number(spec.ThumbnailHeight),
	}
}

func number(n *int32) *int {
	if n == nil {
		return nil
	}
	wide := int(*n)
	return &wide
}
