package operator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"mediastack.dev/api/v1alpha1"
)

// eventRecorder records one Normal event for a new account: that it is Ready. Its status names the
// bucket, the Secrets and the keys, so that an event for each of them would tell nothing more; but at
// 10,000 new accounts they are half of all writes, and client-go keeps each one in memory for minutes.
// Warnings, and the events of later changes, are all recorded.
type eventRecorder struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r eventRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if eventtype == corev1.EventTypeNormal && isRoutine(regarding, reason) {
		return
	}
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
}

// isRoutine reports whether a Normal event is of an account that is not provisioned yet, or of a
// MediaSettings or a MediaWebhook, whose conditions tell the same.
func isRoutine(regarding runtime.Object, reason string) bool {
	switch object := regarding.(type) {
	case *v1alpha1.MediaSettings, *v1alpha1.MediaWebhook:
		return true
	case *v1alpha1.MediaAccount:
		// The generation is observed before the event of the condition Ready is recorded.
		return object.Status.ObservedGeneration < 1 && object.DeletionTimestamp.IsZero() && reason != v1alpha1.ReasonSuspended
	}
	return false
}
