package mediaaccount

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/account"
)

// measureUsage reads what the account holds, at a slow pace.
func (r *Reconciler) measureUsage(ctx context.Context, run *run) bool {
	if !r.usageIsDue(run) {
		run.lookAgain(r.memory.usageDue(run.object.UID))
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	usage, err := r.accounts.Usage(ctx, run.account.ID)
	if err != nil {
		run.seen.usage = status.Fail(status.Database, err)
		return true
	}
	run.object.Status.Usage = usageStatus(run.before.Status.Usage, usage, metav1.NewTime(r.now()))
	due := r.now().Add(status.Jitter(r.config.UsageInterval))
	r.memory.measuredUsage(run.object.UID, due)
	run.lookAgain(due)
	return true
}

// usageIsDue reports whether this reconcile refreshes what may lag: usage and the keys' last use.
func (r *Reconciler) usageIsDue(run *run) bool {
	return run.before.Status.Usage == nil || !r.now().Before(r.memory.usageDue(run.object.UID))
}

// usageStatus is what was measured; the same figures as before keep their time, so
// that an idle account causes no write.
func usageStatus(before *v1alpha1.UsageStatus, usage account.Usage, now metav1.Time) *v1alpha1.UsageStatus {
	next := &v1alpha1.UsageStatus{
		Used:          humanBytes(usage.SealedBytes),
		SealedBytes:   usage.SealedBytes,
		SealedItems:   usage.SealedItems,
		DraftBytes:    usage.DraftBytes,
		DraftItems:    usage.DraftItems,
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

// humanBytes writes bytes with one decimal and a binary unit, as quantities do.
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
