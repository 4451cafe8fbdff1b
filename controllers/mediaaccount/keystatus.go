package mediaaccount

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

// reportKeys sets the keys and the binding in the status and the result of the step, and requests
// reconciles for the times at which a key ends or is rotated.
func (r *Reconciler) reportKeys(k *keyStep) {
	var keys []v1alpha1.KeyStatus
	k.Object.Status.Binding = nil
	for _, app := range k.apps {
		want := r.desiredSecret(k.scope, app, k.keys)
		current := newestDelivered(k.keys.Apps[app.ID].Valid)
		if current == nil {
			continue
		}
		keys = append(keys, r.keyStatus(k, want, *current))
		if app.Name == account.DefaultApp {
			k.Object.Status.Binding = &v1alpha1.BindingStatus{Name: want.name}
		}
	}
	k.Object.Status.Keys = keys
	if k.observed.keys.failure != nil {
		return
	}
	k.observed.keys = stepResult{ready: true, message: fmt.Sprintf("%d of %d Secrets hold a valid key", len(keys), len(k.apps))}
	if highest, spec := highestGeneration(k.keys), specGeneration(k.Object); highest > spec {
		k.observed.keys.reason = v1alpha1.ReasonGenerationLowered
		k.observed.keys.message = fmt.Sprintf("spec.apiKeys.generation is %d, lower than generation %d of the current keys, which stay valid; a generation above %d issues new keys", spec, highest, highest)
	}
}

// keyStatus returns the status of an app's keys.
func (r *Reconciler) keyStatus(k *keyStep, want desiredSecret, current account.Key) v1alpha1.KeyStatus {
	created := metav1.NewTime(current.CreatedAt)
	status := v1alpha1.KeyStatus{
		App: want.app.Name, SecretName: want.name, Generation: current.Generation, CreatedAt: &created,
	}
	for _, older := range k.keys.Apps[want.app.ID].Valid {
		if older.Sequence >= current.Sequence || older.ExpiresAt == nil {
			continue
		}
		r.requeueAt(k, older.ExpiresAt.Add(time.Second))
		if status.PreviousExpiresAt == nil || older.ExpiresAt.After(status.PreviousExpiresAt.Time) {
			expires := metav1.NewTime(*older.ExpiresAt)
			status.PreviousExpiresAt = &expires
		}
	}
	if want.rotateEvery > 0 {
		r.requeueAt(k, want.rotationDue(current))
	}
	status.LastUsedAt = r.lastUsed(k.scope, status, current)
	return status
}

// requeueAt requests a reconcile for a time of the database, whose clock may differ from the
// operator's. A time that has passed is that of a key which could not be replaced: its failure is
// retried.
func (r *Reconciler) requeueAt(k *keyStep, at time.Time) {
	if wait := at.Sub(k.keys.Now); wait > 0 {
		k.RequeueBy(r.deps.Now().Add(wait))
	}
}

// lastUsed returns when the key was last used, as of the last usage measurement, so that an
// active tenant does not cause a status write in every reconcile.
func (r *Reconciler) lastUsed(s *scope, status v1alpha1.KeyStatus, current account.Key) *metav1.Time {
	if r.usageIsDue(s) {
		if current.LastUsedAt == nil {
			return nil
		}
		used := metav1.NewTime(*current.LastUsedAt)
		return &used
	}
	for _, before := range s.Original.Status.Keys {
		if before.App == status.App && before.CreatedAt != nil && before.CreatedAt.Unix() == status.CreatedAt.Unix() {
			return before.LastUsedAt
		}
	}
	return nil
}

// specGeneration returns the generation of the keys that the spec asks for.
func specGeneration(object *v1alpha1.MediaAccount) int64 {
	return max(object.Spec.APIKeys.Generation, 1)
}

// highestGeneration returns the highest generation of the account's keys.
func highestGeneration(keys account.AccountKeys) int64 {
	highest := int64(0)
	for _, app := range keys.Apps {
		for _, key := range app.Valid {
			highest = max(highest, key.Generation)
		}
	}
	return highest
}
