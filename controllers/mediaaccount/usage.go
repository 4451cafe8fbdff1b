package mediaaccount

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// usageRetry is when a measurement that failed is repeated.
const usageRetry = 30 * time.Second

// measureUsage reads the usage of the account, once per Config.UsageInterval.
func (r *Reconciler) measureUsage(ctx context.Context, s *scope) bool {
	if !r.usageIsDue(s) {
		s.RequeueBy(r.schedule.NextUsageMeasurement(s.Object.UID, s.Object.Generation))
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	usage, err := r.deps.Accounts.Usage(ctx, s.account.ID)
	if err != nil {
		// The account can be used all the same, so no condition shows it.
		usageFailures.Inc()
		log.FromContext(ctx).Error(err, "measure the usage")
		s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(usageRetry)))
		return true
	}
	maxStorage := bytesOrDefault(s.Object.Spec.Storage.MaxStorage, defaultMaxStorage)
	s.observed.storage = []metav1.Condition{storageCondition(usage.Used, maxStorage)}
	s.Object.Status.Usage = usageStatus(s.Original.Status.Usage, usage, metav1.NewTime(r.deps.Now()))
	due := r.deps.Now().Add(reconcile.Jitter(r.config.UsageInterval))
	r.schedule.UsageMeasured(s.Object.UID, s.Object.Generation, due)
	s.RequeueBy(due)
	return true
}

// usageIsDue reports whether this reconcile refreshes the usage and the keys' last use. A changed
// spec is a reason, since it may change the cap.
func (r *Reconciler) usageIsDue(s *scope) bool {
	return s.Original.Status.Usage == nil || !r.deps.Now().Before(r.schedule.NextUsageMeasurement(s.Object.UID, s.Object.Generation))
}

// storageCondition returns StorageAvailable for what counts against the cap, in bytes.
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
		Used:          humanBytes(usage.Used),
		UsedBytes:     usage.Used,
		SealedBytes:   usage.SealedBytes,
		SealedItems:   usage.SealedItems,
		DraftBytes:    usage.DraftBytes,
		ReservedBytes: usage.Reserved,
		MeasuredAt:    now,
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
