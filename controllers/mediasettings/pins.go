package mediasettings

import (
	"context"
	"encoding/json"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/settings"
)

// pin stores the fields of the spec as the account's pins.
func (r *Reconciler) pin(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := r.deps.Settings.Pin(ctx, s.accountID, pinsOf(s.Object.Spec), s.pinOwner())
	if fault.Is(err, fault.NotFound) {
		s.observed.pendingReason = "The account is not in the database"
		return false
	}
	s.observed.failure = reconcile.NewError(reconcile.Database, err)
	return err == nil
}

// unpin removes the pins of this object, if it has any.
func (r *Reconciler) unpin(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := r.deps.Settings.Unpin(ctx, string(s.Object.UID))
	s.observed.failure = reconcile.NewError(reconcile.Database, err)
	return err == nil
}

// readLayers reads the settings of the account, including the tenant's.
func (r *Reconciler) readLayers(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	layers, err := r.deps.Settings.Get(ctx, s.accountID)
	if err != nil {
		s.observed.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.observed.layers = &layers
	return true
}

// pinsOf converts the spec to a layer. Both have the same JSON fields, accountRef aside.
func pinsOf(spec v1alpha1.MediaSettingsSpec) settings.Layer {
	return convert[settings.Layer](spec)
}

// effectiveStatus converts effective settings to their form in the status.
func effectiveStatus(effective settings.Effective) *v1alpha1.EffectiveSettings {
	status := convert[v1alpha1.EffectiveSettings](effective)
	return &status
}

// convert converts between types with the same JSON fields. Booleans and integers always
// convert, so that an error is a programming error.
func convert[To, From any](from From) (to To) {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		panic(err)
	}
	return to
}
