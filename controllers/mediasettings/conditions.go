package mediasettings

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// observed is what the steps saw; the status is computed from nothing else.
type observed struct {
	deleting      bool
	keptBy        string           // the finalizers of others, after that of the operator was removed
	account       string           // the name in accountRef
	pendingReason string           // why the account cannot be used; empty when it can
	active        string           // the active MediaSettings of the account; empty when it is this one
	layers        *settings.Layers // nil until they were read
	// counts is what is stored of the presets; nil if it was not read.
	counts  []rendition.PresetCount
	pending *int64 // items of which the pictures of eager presets may have to be made; nil without eager presets
	failure *reconcile.StepError
}

// generationObserved reports whether this generation was handled: it is pinned, or a user
// has to act first.
func (o observed) generationObserved() bool {
	summary := summarize(o)
	return !o.deleting && (summary.Ready || summary.Stalled)
}

// conditions computes Ready, Reconciling and Stalled from what the steps saw.
func conditions(seen observed) []metav1.Condition { return summarize(seen).Conditions() }

func summarize(seen observed) reconcile.Summary {
	if failed, ok := reconcile.FromErrors(seen.failure); ok {
		return failed
	}
	switch {
	case seen.deleting && seen.keptBy != "":
		return reconcile.Reconciling(v1alpha1.ReasonDeleting, "The deletion is complete here; finalizers of others keep the object: "+seen.keptBy)
	case seen.deleting:
		return reconcile.Reconciling(v1alpha1.ReasonDeleting, "Removing the pins")
	case seen.active != "":
		return reconcile.Summary{
			Stalled: true, Reason: v1alpha1.ReasonConflict,
			Message: fmt.Sprintf("MediaSettings %s is older and is the active one of MediaAccount %s; delete one of the two", seen.active, seen.account),
		}
	case seen.pendingReason != "":
		return reconcile.Reconciling(v1alpha1.ReasonAccountNotReady, seen.pendingReason)
	case seen.layers == nil:
		return reconcile.Reconciling(v1alpha1.ReasonProgressing, "Pinning the settings")
	}
	return reconcile.Ready(v1alpha1.ReasonSucceeded, fmt.Sprintf("Settings applied to MediaAccount %s", seen.account))
}

// setLayerStatus sets effective, pinned, tenant and presets. They are empty for an object that is not
// active or has no account. While PostgreSQL cannot be read, the last values stay.
func setLayerStatus(status *v1alpha1.MediaSettingsStatus, seen observed) {
	if seen.layers == nil {
		if seen.failure == nil {
			status.Effective, status.Pinned, status.Tenant, status.Presets = nil, nil, nil, nil
		}
		return
	}
	status.Effective = effectiveStatus(*seen.layers)
	status.Pinned = slices.Concat(seen.layers.FieldsFrom(settings.FromPin), seen.layers.PicturesFrom(settings.FromPin), seen.layers.Pinned.Ceilings.Names())
	status.Tenant = append(seen.layers.FieldsFrom(settings.FromTenant), seen.layers.PicturesFrom(settings.FromTenant)...)
	status.Presets = presetStatus(*seen.layers, seen.counts, seen.pending)
}
