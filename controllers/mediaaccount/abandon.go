package mediaaccount

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
)

// abandon retains a closed account whose media should be deleted, if the annotation names the
// account: its store is gone for good, and the object would wait for it for ever.
func (r *Reconciler) abandon(ctx context.Context, s *scope) bool {
	if s.account.EraseAfter == nil || s.Object.Annotations[v1alpha1.AnnotationAbandon] != s.account.ID.String() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	kept, err := r.deps.Eraser.Abandon(ctx, s.account.ID)
	if fault.Is(err, fault.Conflict) {
		return true // the deletion goes on; abandonHint says why
	}
	if err != nil {
		s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.account = kept
	return true
}

// abandonsWithoutDatabase reports whether the object is released although the database does not
// answer. The annotation must name the account of the status, which only a person can compare.
func abandonsWithoutDatabase(s *scope) bool {
	id := s.Object.Status.AccountID
	if id == "" || s.Object.Annotations[v1alpha1.AnnotationAbandon] != id {
		return false
	}
	failure := s.observed.deletion.failure
	if failure == nil || failure.Source != reconcile.Database || !fault.Is(failure.Err, fault.Unavailable) {
		return false
	}
	switch fault.ReasonOf(failure.Err) { //nolint:exhaustive // for all others the database did answer
	case "", fault.Credentials, fault.DatabaseMissing:
		return true
	}
	return false
}

// retainWithoutDatabase writes the RetainedMediaAccount of an object whose database is gone, from
// its status. If the database returns, it decides: the object is replaced by what it says.
func (r *Reconciler) retainWithoutDatabase(ctx context.Context, s *scope) bool {
	identity, err := r.deps.Identity(ctx)
	if err != nil {
		s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	object := s.Object
	retained := &v1alpha1.RetainedMediaAccount{
		ObjectMeta: metav1.ObjectMeta{Name: object.Status.AccountID, Labels: map[string]string{"app.kubernetes.io/managed-by": "mediastack-operator"}},
		Spec: v1alpha1.RetainedMediaAccountSpec{
			AccountID: object.Status.AccountID, InstallationID: identity.ID.String(),
			AccountNamespace: object.Namespace, NamespaceUID: r.objects.NamespaceUID(object.UID), AccountName: object.Name,
			Bucket: object.Status.Bucket, ClosedAt: metav1.NewMicroTime(object.DeletionTimestamp.Time), Reclaim: v1alpha1.ReclaimRetain,
		},
	}
	if err := r.deps.Client.Create(ctx, retained); err != nil && !apierrors.IsAlreadyExists(err) {
		s.observed.deletion.failure = reconcile.NewAPIError(err, "create RetainedMediaAccount %s", retained.Name)
		return false
	}
	s.observed.deletion.failure = nil
	return true
}

// abandonHint says why the annotation had no effect; it is empty without the annotation.
func abandonHint(s *scope) string {
	value, set := s.Object.Annotations[v1alpha1.AnnotationAbandon]
	switch {
	case !set || s.account.ID == uuid.Nil:
		return ""
	case value != s.account.ID.String():
		return fmt.Sprintf("; the annotation %s has no effect, since its value is not the account id %s", v1alpha1.AnnotationAbandon, s.account.ID)
	}
	return fmt.Sprintf("; the annotation %s has no effect, since the bucket was removed already", v1alpha1.AnnotationAbandon)
}
