package mediasettings

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/settings"
)

// observed is what the steps saw, and all that the status is made of.
type observed struct {
	deleting bool
	account  string           // the name that accountRef gives
	waiting  string           // why the account can't be used; empty when it can
	ruler    string           // the MediaSettings that rules instead; empty when this one does
	layers   *settings.Layers // nil until they were read
	failure  *status.Failure
}

// handled reports whether this generation has been dealt with: pinned, or for another
// object's sake not.
func (o observed) handled() bool {
	return !o.deleting && !o.failure.Retries() && o.waiting == "" && (o.layers != nil || o.ruler != "" || o.failure.Stalls())
}

// conditions turns what the steps saw into Ready, Reconciling and Stalled.
func conditions(seen observed) []metav1.Condition { return verdict(seen).Conditions() }

func verdict(seen observed) status.Verdict {
	if failed, ok := status.Failed(seen.failure); ok {
		return failed
	}
	switch {
	case seen.deleting:
		return status.Working(v1alpha1.ReasonDeleting, "The pins are being taken back")
	case seen.ruler != "":
		return status.Verdict{
			Stalled: true, Reason: v1alpha1.ReasonConflict,
			Message: fmt.Sprintf("MediaSettings %s is older and rules MediaAccount %s: delete one of the two", seen.ruler, seen.account),
		}
	case seen.waiting != "":
		return status.Working(v1alpha1.ReasonAccountNotReady, seen.waiting)
	case seen.layers == nil:
		return status.Working(v1alpha1.ReasonProgressing, "The settings are being pinned")
	}
	return status.Done(v1alpha1.ReasonSucceeded, fmt.Sprintf("The settings hold for MediaAccount %s", seen.account))
}

// showLayers writes what holds into the status. An object that does not rule, or
// whose account is not there, shows nothing: it would not be true. While PostgreSQL
// is out of reach, what was read last stays.
func showLayers(next *v1alpha1.MediaSettingsStatus, seen observed) {
	if seen.layers == nil {
		if !seen.failure.Retries() {
			next.Effective, next.Pinned, next.Tenant = nil, nil, nil
		}
		return
	}
	effective := seen.layers.Effective()
	next.Effective = &v1alpha1.EffectiveSettings{
		UseWebP:           effective.UseWebP,
		WebPOutputQuality: int32(effective.WebPOutputQuality), //nolint:gosec // bounded by settings.Layer.Validate
		ThumbnailWidth:    int32(effective.ThumbnailWidth),    //nolint:gosec // bounded by settings.Layer.Validate
		ThumbnailHeight:   int32(effective.ThumbnailHeight),   //nolint:gosec // bounded by settings.Layer.Validate
	}
	next.Pinned = fieldsFrom(*seen.layers, settings.FromPin)
	next.Tenant = fieldsFrom(*seen.layers, settings.FromTenant)
}

// fieldsFrom names the fields whose value comes from source, in the order of the specification.
func fieldsFrom(layers settings.Layers, source settings.Source) []string {
	set := layers.Pinned
	if source == settings.FromTenant {
		set = layers.Tenant
	}
	sources := layers.Sources()
	var names []string
	for _, name := range set.Fields() {
		if sources[name] == source {
			names = append(names, name)
		}
	}
	return names
}
