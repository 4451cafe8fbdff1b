package mediaaccount

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// closeAccount closes the account, which revokes every key at once, and plans the deletion of its
// media. PostgreSQL says which account is the object's, also after it was closed: other clients
// can write a status. While the operator is being removed, no media is deleted, and a protected account
// stays open.
func (r *Reconciler) closeAccount(ctx context.Context, s *scope) bool {
	s.observed.deletion = &deletionProgress{message: "Closing the account"}
	found, failure := r.findClosing(ctx, s)
	if failure != nil {
		s.observed.deletion.failure = failure
		return false
	}
	if s.account = found; found.ID == uuid.Nil || found.ClosedAt != nil {
		return true
	}
	options := closeOptions(s.Object.Spec)
	removal, failure := r.findRemoval(ctx, s, options)
	if failure != nil {
		s.observed.deletion.failure = failure
		return false
	}
	if removal != "" {
		options = account.CloseOptions{}
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	closed, err := r.deps.Accounts.Close(ctx, found.ID, options)
	if err != nil {
		s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.account = closed
	if removal != "" {
		r.reportOverruled(ctx, s, removal)
	}
	return true
}

// findRemoval returns what removes the operator from the cluster, if that decides about the account;
// empty if nothing does. Definitions, a namespace and a Deployment are deleted with `kubectl delete -k`,
// for example: then the deletion of the object is not a tenant's wish to have the media deleted. A
// protected account is not closed at all; the admission policy does not see the deletions of a definition.
func (r *Reconciler) findRemoval(ctx context.Context, s *scope, options account.CloseOptions) (string, *reconcile.StepError) {
	if !options.Erase && !s.Object.Spec.DeletionProtection {
		return "", nil // the media is retained anyway
	}
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	removal, err := r.deps.Removal(ctx)
	if err != nil {
		return "", reconcile.NewAPIError(err, "find out whether the operator is being removed")
	}
	if removal != "" && s.Object.Spec.DeletionProtection {
		return "", reconcile.NewError(reconcile.Kubernetes, fault.WithReason(fault.New(fault.Conflict,
			"%s, and spec.deletionProtection is true: the account stays open, and its keys stay valid; set spec.deletionProtection to false to end it with its media retained", removal), fault.DeletionBlocked))
	}
	return removal, nil
}

// reportOverruled says why the media of an account is retained although its deletion policy is Delete.
func (r *Reconciler) reportOverruled(ctx context.Context, s *scope, removal string) {
	r.deps.Log.WarnContext(ctx, "the deletion policy Delete had no effect, because the operator is being removed: the media is retained",
		"namespace", s.Object.Namespace, "name", s.Object.Name, "account", s.account.ID, "cause", removal)
	r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, "DeletionPolicyOverruled", "CloseAccount",
		"%s: the media is retained, although spec.deletionPolicy is Delete", removal)
}

// findClosing returns the account of an object that is being deleted; the zero Account if it has
// none, because it was never provisioned or is erased.
func (r *Reconciler) findClosing(ctx context.Context, s *scope) (account.Account, *reconcile.StepError) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.deps.Accounts.FindOfObject(ctx, s.Object.Namespace, s.Object.Name, string(s.Object.UID))
	if fault.Is(err, fault.NotFound) {
		return account.Account{}, nil
	}
	if err == nil {
		s.Object.Status.AccountID, s.Object.Status.Bucket = found.ID.String(), found.Bucket
	}
	return found, reconcile.NewError(reconcile.Database, err)
}

// closeOptions returns what happens to the media. A protected object can be deleted only where the
// admission policy is not installed: then its media is retained.
func closeOptions(spec v1alpha1.MediaAccountSpec) account.CloseOptions {
	if spec.DeletionPolicy != v1alpha1.DeletionDelete || spec.DeletionProtection {
		return account.CloseOptions{}
	}
	options := account.CloseOptions{Erase: true}
	if spec.DeleteAfter != nil {
		options.EraseAfter = &spec.DeleteAfter.Duration
	}
	return options
}

// erasesAtOnce reports whether the object stays until the media of its closed account is deleted.
// Otherwise a RetainedMediaAccount names the account, and deletes the media later.
func erasesAtOnce(closed account.Account) bool {
	return closed.EraseAfter != nil && !closed.EraseAfter.After(*closed.ClosedAt)
}

// removeSecrets deletes the Secrets with the keys.
func (r *Reconciler) removeSecrets(ctx context.Context, s *scope) bool {
	secrets, failure := r.cachedSecrets(ctx, s.Object)
	for _, secret := range secrets {
		if failure == nil {
			failure = r.removeSecret(ctx, s, secret)
		}
	}
	s.observed.deletion.failure = failure
	return failure == nil && !s.StatusSkipped()
}

// release removes the finalizer if nothing is left to delete, and passes the object to the
// controller of deletions otherwise, so that no other account waits for it.
func (r *Reconciler) release(ctx context.Context, s *scope) bool {
	switch {
	case s.account.ID != uuid.Nil && erasesAtOnce(s.account) && !reportsDeletion(s.Original):
		// A queue of deletions may be long: until a worker is free, the status would be that of
		// the account before.
		s.observed.deletion.message = "Waiting to delete the media"
		s.announcesErasure = true
		s.RequeueBy(r.deps.Now())
		return false
	case s.account.ID != uuid.Nil && erasesAtOnce(s.account):
		s.SkipStatus() // the other controller writes it
		r.deletions.add(ctx, s.Object)
		return false
	}
	held := controllerutil.ContainsFinalizer(s.Object, v1alpha1.Finalizer)
	if !r.removeFinalizer(ctx, s) {
		return false
	}
	if held && s.account.ID != uuid.Nil {
		r.emitRetained(s)
	}
	return true
}

// reportsDeletion reports whether the status says that the object is being deleted.
func reportsDeletion(object *v1alpha1.MediaAccount) bool {
	ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.ObservedGeneration == object.Generation
}

// emitRetained records what happens to the media of a released object.
func (r *Reconciler) emitRetained(s *scope) {
	note := fmt.Sprintf("the media is kept: see RetainedMediaAccount %s", s.account.ID)
	if s.account.EraseAfter != nil {
		note = fmt.Sprintf("the media is kept until %s: see RetainedMediaAccount %s", s.account.EraseAfter.UTC().Format("2006-01-02 15:04:05 MST"), s.account.ID)
	}
	if s.Object.Spec.DeletionProtection && s.Object.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		note += "; spec.deletionProtection prevented its deletion"
	}
	r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeNormal, "AccountRetained", "CloseAccount", "%s", note)
}

// deletionProgress is the progress of a deletion.
type deletionProgress struct {
	message string
	failure *reconcile.StepError // is retried
	blocked *reconcile.StepError // the store keeps objects; the message counts them
}

// summary returns the conditions of an object that is being deleted.
func (d deletionProgress) summary() reconcile.Summary {
	if failed, ok := reconcile.FromErrors(d.failure); ok {
		return failed
	}
	if blocked, ok := reconcile.FromErrors(d.blocked); ok {
		blocked.Message = d.message
		return blocked
	}
	return reconcile.Reconciling(v1alpha1.ReasonDeleting, d.message)
}
