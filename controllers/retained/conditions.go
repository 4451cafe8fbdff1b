package retained

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// setStatus sets the figures of the status.
func setStatus(status *v1alpha1.RetainedMediaAccountStatus, row account.Retained) {
	status.Items, status.Bytes, status.PurgeAt = row.Items, row.Bytes, nil
	if row.EraseAfter != nil {
		status.PurgeAt = &metav1.Time{Time: row.EraseAfter.UTC().Truncate(time.Second)}
	}
}

// differs reports whether the object, its status or its spec differs from the database, or
// whether the media is to be deleted now.
func differs(row account.Retained, object *v1alpha1.RetainedMediaAccount) bool {
	want := v1alpha1.RetainedMediaAccountStatus{}
	setStatus(&want, row)
	got := object.Status
	return row.Due || !describes(object, row) || got.ObservedGeneration != object.Generation ||
		(object.Spec.Reclaim == v1alpha1.ReclaimPurge) != (row.EraseAfter != nil) ||
		got.Items != want.Items || got.Bytes != want.Bytes || !got.PurgeAt.Equal(want.PurgeAt) ||
		!reconcile.Shows(got.Conditions, object.Generation, summarize(*object, row).Conditions())
}

// summarize returns the summary of an account that is not being erased.
func summarize(object v1alpha1.RetainedMediaAccount, row account.Retained) reconcile.Summary {
	if row.EraseAfter != nil {
		return reconcile.Ready(v1alpha1.ReasonRetained,
			fmt.Sprintf("The media is kept until %s and is deleted then; to keep it, set spec.reclaim to Retain", row.EraseAfter.UTC().Format(time.RFC3339)))
	}
	if object.Spec.ClaimRef != nil {
		claim := claimed(&object)[0]
		return reconcile.Ready(v1alpha1.ReasonRetained, fmt.Sprintf("The media is kept until MediaAccount %s takes over the account", claim))
	}
	if object.Spec.ReserveName != nil && !*object.Spec.ReserveName {
		return reconcile.Ready(v1alpha1.ReasonRetained, "The media is kept; the MediaAccount in spec.claimRef, or one whose spec.restoreFrom names the account, takes it over")
	}
	return reconcile.Ready(v1alpha1.ReasonRetained,
		fmt.Sprintf("The media is kept; a new MediaAccount %s/%s in the same namespace, or the one in spec.claimRef, takes over the account", row.Namespace, row.Name))
}

// unknown returns the summary of an object without an account.
func unknown(object *v1alpha1.RetainedMediaAccount) reconcile.Summary {
	return reconcile.Summary{Stalled: true, Reason: v1alpha1.ReasonInvalid,
		Message: fmt.Sprintf("No account with id %s is retained; delete this object", object.Spec.AccountID)}
}
