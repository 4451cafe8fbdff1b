package mediasettings

import (
	"context"
	"encoding/json"
	"slices"

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
	state, err := r.deps.Settings.State(ctx, s.accountID)
	if err != nil {
		s.observed.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.state = state
	if len(state.Presets()) > 0 {
		if s.observed.counts, err = r.deps.Counts.PresetCounts(ctx, s.accountID); err != nil {
			s.observed.failure = reconcile.NewError(reconcile.Database, err)
			return false
		}
	}
	if slices.ContainsFunc(state.Presets(), func(p settings.EffectivePreset) bool { return p.Eager }) {
		pending, err := r.deps.Counts.EagerPending(ctx, s.accountID)
		if err != nil {
			s.observed.failure = reconcile.NewError(reconcile.Database, err)
			return false
		}
		s.observed.pending = &pending
	}
	s.observed.layers = &state.Layers
	return true
}

// pinsOf converts the spec to a layer. Both have the same JSON fields, accountRef aside.
func pinsOf(spec v1alpha1.MediaSettingsSpec) settings.Layer {
	return convert[settings.Layer](spec)
}

// effectiveStatus returns the effective settings in their form in the status.
func effectiveStatus(layers settings.Layers) *v1alpha1.EffectiveSettings {
	status := convert[v1alpha1.EffectiveSettings](layers.Effective())
	if originals, source := layers.Originals(); source != settings.FromDefault {
		status.Originals = string(originals)
	}
	if derivatives, source := layers.Derivatives(); source != settings.FromDefault {
		status.Derivatives = string(derivatives)
	}
	return &status
}

// convert converts between types with the same JSON fields. Their values always
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
