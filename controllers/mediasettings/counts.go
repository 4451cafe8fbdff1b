package mediasettings

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// Counts reads what is stored of the presets of accounts. PostgreSQL implements it.
type Counts interface {
	rendition.Counts
	// EachPresetTotal calls visit for every open account of the namespaces (nil = all) and each of its
	// presets of which something is stored.
	EachPresetTotal(ctx context.Context, namespaces []string, visit func(rendition.PresetTotal)) error
	// EachEagerWaiting calls visit for every open account of the namespaces with items of which pictures may still have to
	// be made in advance.
	EachEagerWaiting(ctx context.Context, namespaces []string, visit func(namespace, account string)) error
}

const (
	// countsTimeout bounds one comparison of all counts.
	countsTimeout = time.Minute
	// smallChangeIntervals is after how many intervals a small change of the counts shows, and largeChange the part of the
	// storage cap by which the bytes of a preset must change to show at the next interval, as for the usage of an account.
	smallChangeIntervals = 12
	largeChange          = 100
)

// presetStatus returns the presets in effect with what is stored of them. A recipe that a preset does not have any more is
// stale. What is stored of a preset that is not in effect is not shown: the purge ends it. pending is shown with those that are eager.
func presetStatus(layers settings.Layers, counts []rendition.PresetCount, pending *int64) []v1alpha1.PresetStatus {
	var shown []v1alpha1.PresetStatus
	for _, preset := range layers.Presets() {
		current := map[media.RecipeID]bool{}
		for _, recipe := range media.RecipesOf(preset.Preset) {
			current[recipe.ID(media.EncoderVersion)] = true
		}
		status := v1alpha1.PresetStatus{Name: preset.Name, Source: string(preset.Source)}
		if preset.Eager {
			status.Pending = pending
		}
		for _, count := range counts {
			switch {
			case count.Preset != preset.Name:
				continue
			case current[count.RecipeID]:
				status.Ready += count.Items
			default:
				status.Stale += count.Items
			}
			status.Bytes += count.Bytes
		}
		shown = append(shown, status)
	}
	return shown
}

// countChanges decides when statuses show counts that have changed.
type countChanges struct {
	later time.Duration                      // after which small changes show
	since map[types.NamespacedName]time.Time // the first comparison that found a small change
}

// due reports whether the status of an object must show what is stored of its presets: a large change, or one
// from or to nothing, at once, and a small one later. maxStorage is the cap of the account in bytes.
func (c countChanges) due(object types.NamespacedName, shown []v1alpha1.PresetStatus, stored func(preset string) rendition.PresetTotal, maxStorage int64, now time.Time) bool {
	changed, large := false, false
	for _, preset := range shown {
		total, items := stored(preset.Name), preset.Ready+preset.Stale
		difference := max(total.Bytes-preset.Bytes, preset.Bytes-total.Bytes)
		changed = changed || total.Items != items || difference > 0
		large = large || (total.Items == 0) != (items == 0) || difference >= max(maxStorage/largeChange, 1)
	}
	since, known := c.since[object]
	if changed && !large && !known {
		c.since[object] = now
		return false
	}
	if !changed || large || now.Sub(since) >= c.later {
		delete(c.since, object)
		return changed
	}
	return false
}

// compareCounts requests a reconcile of each object whose status must show other counts of what the database has, until ctx
// ends. It runs while this replica leads.
func (r *Reconciler) compareCounts(ctx context.Context) error {
	changes := countChanges{later: smallChangeIntervals * r.config.CountInterval, since: map[types.NamespacedName]time.Time{}}
	return r.deps.Compare(ctx, reconcile.Comparison{What: "the counts of pictures of all accounts", Interval: r.config.CountInterval, Rate: r.config.CountRate,
		Outdated: func(ctx context.Context) ([]types.NamespacedName, error) { return r.outdatedCounts(ctx, changes) }})
}

// outdatedCounts returns the objects whose status must show other counts, by two statements for all.
func (r *Reconciler) outdatedCounts(ctx context.Context, changes countChanges) ([]types.NamespacedName, error) {
	ctx, cancel := context.WithTimeout(ctx, countsTimeout)
	defer cancel()
	type preset struct {
		account types.NamespacedName
		name    string
	}
	stored := map[preset]rendition.PresetTotal{}
	err := r.deps.Counts.EachPresetTotal(ctx, r.config.Namespaces, func(total rendition.PresetTotal) {
		stored[preset{types.NamespacedName{Namespace: total.Namespace, Name: total.Account}, total.Preset}] = total
	})
	if err != nil {
		return nil, err
	}
	waiting := map[types.NamespacedName]bool{}
	if err := r.deps.Counts.EachEagerWaiting(ctx, r.config.Namespaces, func(namespace, account string) {
		waiting[types.NamespacedName{Namespace: namespace, Name: account}] = true
	}); err != nil {
		return nil, err
	}
	list := &v1alpha1.MediaSettingsList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var outdated []types.NamespacedName
	listed := map[types.NamespacedName]bool{}
	for i := range list.Items {
		object, key := &list.Items[i], client.ObjectKeyFromObject(&list.Items[i])
		listed[key] = true
		of := types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.AccountRef.Name}
		maxStorage, err := r.maxStorage(ctx, of)
		if err != nil {
			return nil, err
		}
		pending := slices.ContainsFunc(object.Status.Presets, func(shown v1alpha1.PresetStatus) bool {
			return shown.Pending != nil && (*shown.Pending > 0 || waiting[of])
		})
		if changes.due(key, object.Status.Presets, func(name string) rendition.PresetTotal { return stored[preset{of, name}] }, maxStorage, r.deps.Now()) || pending {
			outdated = append(outdated, key)
		}
	}
	maps.DeleteFunc(changes.since, func(key types.NamespacedName, _ time.Time) bool { return !listed[key] })
	return outdated, nil
}

// maxStorage returns the storage cap of an account in bytes; 0 if there is no account.
func (r *Reconciler) maxStorage(ctx context.Context, key types.NamespacedName) (int64, error) {
	of := &v1alpha1.MediaAccount{}
	if err := r.deps.Client.Get(ctx, key, of); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if of.Spec.Storage.MaxStorage == nil { // the schema has a default
		return 0, nil
	}
	return of.Spec.Storage.MaxStorage.Value(), nil
}
