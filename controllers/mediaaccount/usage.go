package mediaaccount

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// measureUsage reads the usage of the account, if usageIsDue.
func (r *Reconciler) measureUsage(ctx context.Context, s *scope) bool {
	if !r.usageIsDue(s) {
		return true
	}
	usage, err := r.readUsage(ctx, s)
	if err != nil {
		// The account can be used all the same, so no condition shows it.
		usageFailures.Inc()
		log.FromContext(ctx).Error(err, "measure the usage")
		return true
	}
	maxStorage := bytesOrDefault(s.Object.Spec.Storage.MaxStorage, defaultMaxStorage)
	s.observed.storage = []metav1.Condition{storageCondition(usage.Used-usage.RenditionBytes, maxStorage)}
	s.Object.Status.Usage = usageStatus(s.Original.Status.Usage, usage, metav1.NewTime(r.deps.Now()))
	r.objects.Measured(s.Object.UID)
	return true
}

// readUsage reads the usage. That of an account whose first key was delivered just now is 0.
func (r *Reconciler) readUsage(ctx context.Context, s *scope) (account.Usage, error) {
	if s.created {
		return account.Usage{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return r.deps.Accounts.Usage(ctx, s.account.ID)
}

// usageIsDue reports whether this reconcile refreshes the usage and the keys' last use: the first of
// an object, one of a new spec, which may change the cap, and one that pace requests.
func (r *Reconciler) usageIsDue(s *scope) bool {
	return s.Original.Status.Usage == nil || s.Original.Status.ObservedGeneration != s.Object.Generation || r.objects.Measures(s.Object.UID)
}

// storageCondition returns StorageAvailable for what counts against the cap, in bytes, without renditions: they never
// take the room of an upload.
func storageCondition(used, maxStorage int64) metav1.Condition {
	share := fmt.Sprintf("%s of %s are used", humanBytes(used), humanBytes(maxStorage))
	switch {
	case used >= maxStorage:
		return reconcile.Condition(v1alpha1.ConditionStorageAvailable, false, v1alpha1.ReasonStorageFull,
			share+": uploads are rejected until items are deleted or spec.storage.maxStorage is raised")
	case used >= maxStorage-maxStorage/10:
		return reconcile.Condition(v1alpha1.ConditionStorageAvailable, true, v1alpha1.ReasonStorageNearFull, share)
	}
	return reconcile.Condition(v1alpha1.ConditionStorageAvailable, true, v1alpha1.ReasonSucceeded, "Uploads fit under the storage cap")
}

// usageStatus returns the measured usage. Equal figures keep the time of the previous
// measurement, so that an idle account causes no status write.
func usageStatus(before *v1alpha1.UsageStatus, usage account.Usage, now metav1.Time) *v1alpha1.UsageStatus {
	next := &v1alpha1.UsageStatus{
		Used:           humanBytes(usage.Used),
		UsedBytes:      usage.Used,
		SealedBytes:    usage.SealedBytes,
		SealedItems:    usage.SealedItems,
		DraftBytes:     usage.DraftBytes,
		DeletedBytes:   usage.DeletedBytes,
		RenditionBytes: usage.RenditionBytes,
		ReservedBytes:  usage.Reserved,
		MeasuredAt:     now,
	}
	if before != nil {
		same := *next
		same.MeasuredAt = before.MeasuredAt
		if same == *before {
			return &same
		}
	}
	return next
}

// humanBytes formats bytes with one decimal and a binary unit, as Kubernetes quantities.
func humanBytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1023.95 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + units[unit:unit+1] + "i"
}
