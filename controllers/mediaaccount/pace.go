package mediaaccount

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

const (
	// paceInterval is the interval at which the budgets of a second are given out.
	paceInterval = time.Second
	// usagePassTimeout bounds one comparison of all accounts.
	usagePassTimeout = time.Minute
	// smallChangeIntervals is after how many intervals a small change of the usage shows.
	smallChangeIntervals = 12
	// largeChange is the part of the cap by which the usage must change to show at the next interval.
	largeChange = 100
)

// pacer spends the budgets of the periodic checks.
type pacer struct {
	*Reconciler
	outdated []types.NamespacedName // objects whose status shows another usage
	nextPass time.Time              // of the usage
	serves   bool                   // the last status of the runtime that all accounts were told
}

// pace requests the periodic checks, for all accounts together, until ctx ends: nothing is timed for
// one account. It runs while this replica leads.
func (r *Reconciler) pace(ctx context.Context) error {
	p := &pacer{Reconciler: r, serves: true}
	ticker := time.NewTicker(paceInterval)
	defer ticker.Stop()
	for {
		if r.deps.Gate.IsOpen() {
			p.second(ctx)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// second spends the budgets of one second.
func (p *pacer) second(ctx context.Context) {
	now := p.deps.Now()
	if p.deps.Outages.Standing(reconcile.ObjectStore) != nil {
		p.buckets.Probe()
	} else {
		p.buckets.Next(now, p.config.BucketCheckRate)
	}
	if !now.Before(p.nextPass) && p.deps.Outages.Standing(reconcile.Database) == nil {
		p.nextPass = now.Add(p.config.UsageInterval)
		p.compareUsage(ctx)
	}
	p.writeUsage(ctx)
	p.tellRuntime(ctx)
}

// compareUsage finds the accounts whose status shows another usage than the database has, with one
// statement for all.
func (p *pacer) compareUsage(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, usagePassTimeout)
	defer cancel()
	serving, _, _ := p.runtimes.Look(ctx)
	p.outdated = nil
	err := p.deps.Accounts.EachHolding(ctx, p.config.Namespaces, func(held account.Holding) {
		key := types.NamespacedName{Namespace: held.Namespace, Name: held.Name}
		object := &v1alpha1.MediaAccount{}
		if p.deps.Client.Get(ctx, key, object) == nil && (p.usageChanged(object, held) || p.runtimeChanged(object, serving.Versions)) {
			p.outdated = append(p.outdated, key)
		}
	})
	if err != nil {
		usageFailures.Inc()
		log.FromContext(ctx).Error(err, "compare the usage of all accounts")
	}
}

// usageChanged reports whether the status must show what the account holds: a change that is large, or
// changes a condition, at the next comparison, and a small one after smallChangeIntervals.
func (p *pacer) usageChanged(object *v1alpha1.MediaAccount, held account.Holding) bool {
	shown := object.Status.Usage
	if shown == nil {
		return true
	}
	maxStorage := bytesOrDefault(object.Spec.Storage.MaxStorage, defaultMaxStorage)
	later := smallChangeIntervals * p.config.UsageInterval
	changed := *usageStatus(shown, held.Usage, shown.MeasuredAt) != *shown
	switch {
	case storageCondition(held.Usage.Used-held.Usage.RenditionBytes, maxStorage).Reason != storageCondition(shown.UsedBytes-shown.RenditionBytes, maxStorage).Reason:
		return true
	case held.LastUsedAt.Unix() > 0 && held.LastUsedAt.Sub(lastUse(object)) >= later: // the first use at once
		return true
	}
	difference := max(held.Usage.Used-shown.UsedBytes, shown.UsedBytes-held.Usage.Used)
	return changed && (difference >= max(maxStorage/largeChange, 1) || p.deps.Now().Sub(shown.MeasuredAt.Time) >= later)
}

// runtimeChanged reports whether the status shows other versions of the runtime than those that serve.
func (p *pacer) runtimeChanged(object *v1alpha1.MediaAccount, versions []string) bool {
	shown := object.Status.Runtime
	return shown != nil && len(versions) > 0 && !equalVersions(shown.Versions, versions)
}

// lastUse returns when a key was last used, as the status shows it.
func lastUse(object *v1alpha1.MediaAccount) (last time.Time) {
	for _, key := range object.Status.Keys {
		if key.LastUsedAt != nil && key.LastUsedAt.After(last) {
			last = key.LastUsedAt.Time
		}
	}
	return last
}

// writeUsage requests the reconciles of a second.
func (p *pacer) writeUsage(ctx context.Context) {
	n := min(len(p.outdated), p.config.UsageWriteRate)
	for _, key := range p.outdated[:n] {
		object := &v1alpha1.MediaAccount{}
		if p.deps.Client.Get(ctx, key, object) == nil {
			p.objects.MeasureNext(object.UID)
			p.deps.Queue.Add(reconcile.PriorityRepeat, ctrl.Request{NamespacedName: key})
		}
	}
	p.outdated = p.outdated[n:]
}

// tellRuntime requests a reconcile of every account when the last replica of the runtime has been gone
// for the grace period, and when one serves again.
func (p *pacer) tellRuntime(ctx context.Context) {
	serving, gone, known := p.runtimes.Look(ctx)
	if serves := !isGone(serving, gone, p.config.OutageGrace); known && serves != p.serves {
		p.serves = serves
		p.RequestAll(ctx)
	}
}

// Request requests a reconcile of an account that has this version in the database (0 = it has none any
// more), unless its status shows it. That of a new one waits as its creation does. It reports false while a
// reconcile is under way, whose end decides that.
func (r *Reconciler) Request(ctx context.Context, priority int, key types.NamespacedName, version int64) bool {
	if shows, running := r.shown.Shows(key, version); shows || running {
		return shows
	}
	object := &v1alpha1.MediaAccount{}
	if r.deps.Client.Get(ctx, key, object) == nil {
		priority = reconcile.PriorityOf(priority, object, observedGeneration(object))
	}
	r.deps.Queue.Add(priority, ctrl.Request{NamespacedName: key})
	return true
}

// RequestAll requests a reconcile of every account, after everything else.
func (r *Reconciler) RequestAll(ctx context.Context) {
	list := &v1alpha1.MediaAccountList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaAccounts")
		return
	}
	for i := range list.Items {
		r.deps.Queue.Add(reconcile.PriorityRepeat, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}
