package mediaaccount

import (
	"context"
	"fmt"

	"github.com/google/uuid"

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
