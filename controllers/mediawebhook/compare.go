package mediawebhook

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/webhook"
)

const (
	// compareTimeout bounds one comparison of all webhooks.
	compareTimeout = time.Minute
	// smallChangeIntervals is after how many intervals a small change shows, as for counts of pictures.
	smallChangeIntervals = 12
)

// comparison is what is remembered between two comparisons.
type comparison struct {
	later time.Duration           // after which small changes show
	since map[types.UID]time.Time // the first comparison that found a small change
	// missing are the webhooks without an object that the last comparison found.
	missing map[string]bool
}

// due reports whether the status of an object must show what the database says: an important change at once, and another one later.
func (c comparison) due(uid types.UID, shown v1alpha1.MediaWebhookStatus, state webhook.State, now time.Time) bool {
	important, changed := differs(shown, state)
	if important {
		delete(c.since, uid)
		return true
	}
	if !changed {
		delete(c.since, uid)
		return false
	}
	since, known := c.since[uid]
	if !known {
		c.since[uid] = now
		return false
	}
	if now.Sub(since) < c.later {
		return false
	}
	delete(c.since, uid)
	return true
}

// differs compares a status with the database. Numbers and times change with every delivery; the rest is important.
func differs(shown v1alpha1.MediaWebhookStatus, state webhook.State) (important, changed bool) {
	next := *shown.DeepCopy()
	setState(&next, state)
	pending := func(status v1alpha1.MediaWebhookStatus) int64 {
		if status.Pending == nil {
			return 0
		}
		return *status.Pending
	}
	ready := meta.IsStatusConditionTrue(shown.Conditions, v1alpha1.ConditionReady)
	important = (pending(shown) == 0) != (pending(next) == 0) || shown.Full != next.Full || shown.Ended != next.Ended ||
		!shown.FailingSince.Equal(next.FailingSince) || !shown.MissedUntil.Equal(next.MissedUntil) ||
		shown.Tested != next.Tested || shown.Replayed != next.Replayed || shown.ReplayError != next.ReplayError ||
		ready && (!state.Journal || state.FormerKey)
	changed = important || pending(shown) != pending(next) || !shown.Oldest.Equal(next.Oldest) || !shown.LastAttempt.Equal(next.LastAttempt) ||
		!shown.LastSuccess.Equal(next.LastSuccess) || shown.LastStatus != next.LastStatus || shown.LastError != next.LastError
	return important, changed
}

// compare requests a reconcile of each object whose status must show something else of what the database has, and removes webhooks without
// an object, until ctx ends. It runs while this replica leads.
func (r *Reconciler) compare(ctx context.Context) error {
	memory := &comparison{later: smallChangeIntervals * r.config.CompareInterval, since: map[types.UID]time.Time{}}
	return r.deps.Compare(ctx, reconcile.Comparison{What: "the statuses of all webhooks", Interval: r.config.CompareInterval, Rate: r.config.CompareRate,
		Outdated: func(ctx context.Context) ([]types.NamespacedName, error) { return r.outdated(ctx, memory) }})
}

// outdated returns the objects whose status must show something else, by one statement for all.
func (r *Reconciler) outdated(ctx context.Context, memory *comparison) ([]types.NamespacedName, error) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	stored := map[string]webhook.State{}
	err := r.deps.Webhooks.EachWebhook(ctx, r.config.Namespaces, func(state webhook.State) { stored[state.UID] = state })
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.MediaWebhookList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var outdated []types.NamespacedName
	listed := map[types.UID]bool{}
	for i := range list.Items {
		object := &list.Items[i]
		listed[object.UID] = true
		state, is := stored[string(object.UID)]
		delete(stored, string(object.UID))
		lost := !is && meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady)
		if object.DeletionTimestamp.IsZero() && (lost || is && memory.due(object.UID, object.Status, state, r.deps.Now())) {
			outdated = append(outdated, client.ObjectKeyFromObject(object))
		}
	}
	maps.DeleteFunc(memory.since, func(uid types.UID, _ time.Time) bool { return !listed[uid] })
	return outdated, r.removeOrphans(ctx, memory, stored)
}

// removeOrphans removes the webhooks without an object: the finalizer removes them otherwise, but it can be removed by hand, and so can the
// definition of the resource. The cache lacked their object in two comparisons, and the API server does not have it either.
func (r *Reconciler) removeOrphans(ctx context.Context, memory *comparison, orphans map[string]webhook.State) error {
	before := memory.missing
	memory.missing = map[string]bool{}
	for uid, state := range orphans {
		memory.missing[uid] = true
		if !before[uid] {
			continue
		}
		gone, err := r.gone(ctx, state)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		log.FromContext(ctx).Info("removing a webhook whose MediaWebhook does not exist any more", "object", state.Namespace+"/"+state.Name, "uid", uid)
		err = r.deps.Gate.Do(ctx, func(ctx context.Context) error { return r.deps.Webhooks.RemoveWebhook(ctx, uid) })
		if err != nil {
			return err
		}
		delete(memory.missing, uid)
	}
	return nil
}

// gone reports whether the API server does not have the object of a webhook, or has another one of its name.
func (r *Reconciler) gone(ctx context.Context, of webhook.State) (bool, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MediaWebhook"))
	err := r.deps.APIReader.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, found)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read MediaWebhook %s/%s: %w", of.Namespace, of.Name, err)
	}
	return string(found.UID) != of.UID, nil
}
