package retained

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// Reconcile makes the object of one account equal to what the database says, and applies its
// spec. An object of another installation is left alone.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	defer func() {
		if errors.Is(err, errChanged) {
			result, err = ctrl.Result{RequeueAfter: reconcile.Jitter(changedDelay)}, nil
		}
	}()
	object, err := r.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	row, ours, err := r.look(ctx, request.Name, object)
	switch {
	case err != nil || !ours:
		return ctrl.Result{}, err
	case row == nil:
		return ctrl.Result{}, r.withoutAccount(ctx, object)
	}
	if held, err := r.isHeld(ctx, *row); held || err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case object == nil:
		if object, err = r.create(ctx, *row); err != nil {
			return ctrl.Result{}, err
		}
	case !describes(object, *row):
		return ctrl.Result{}, r.remove(ctx, object) // its deletion requests the next reconcile, which creates another
	}
	if used, err := r.removeUsedClaim(ctx, object); used || err != nil {
		return ctrl.Result{}, err // the change requests the next reconcile
	}
	if row, err = r.applyReclaim(ctx, object, *row); row == nil {
		return ctrl.Result{}, err
	}
	if row.Due || row.ErasingAt != nil {
		return ctrl.Result{}, send(ctx, r.due, object.Name)
	}
	return ctrl.Result{}, r.report(ctx, object, *row, summarize(*object, *row))
}

// read returns the object in the cache; nil without one.
func (r *Reconciler) read(ctx context.Context, name string) (*v1alpha1.RetainedMediaAccount, error) {
	object := &v1alpha1.RetainedMediaAccount{}
	err := r.deps.Client.Get(ctx, types.NamespacedName{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// look returns the retained account with the id, nil without one, and reports whether the object
// belongs to this installation.
func (r *Reconciler) look(ctx context.Context, name string, object *v1alpha1.RetainedMediaAccount) (row *account.Retained, ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if object != nil {
		installation, err := r.deps.Accounts.InstallationID(ctx)
		if err != nil || object.Spec.InstallationID != installation.String() {
			return nil, false, err
		}
	}
	id, err := uuid.Parse(name)
	if err != nil {
		return nil, true, nil
	}
	found, err := r.deps.Accounts.Retained(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, true, nil
	}
	return &found, err == nil, err
}

// withoutAccount deletes the object of an account that is open again, or is erased. An object
// that the operator did not create stays, and says that it has no effect.
func (r *Reconciler) withoutAccount(ctx context.Context, object *v1alpha1.RetainedMediaAccount) error {
	switch {
	case object == nil:
		return nil
	case isManaged(object):
		return r.remove(ctx, object)
	}
	return r.report(ctx, object, account.Retained{}, unknown(object))
}

// isHeld reports whether the MediaAccount that the account was bound to still has the operator's
// finalizer: it is being deleted, and its controller reports the progress. Finalizers of others may
// keep the object afterwards.
func (r *Reconciler) isHeld(ctx context.Context, row account.Retained) (bool, error) {
	holder := &v1alpha1.MediaAccount{}
	err := r.deps.Client.Get(ctx, types.NamespacedName{Namespace: row.Namespace, Name: row.Name}, holder)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return string(holder.UID) == row.ObjectUID && controllerutil.ContainsFinalizer(holder, v1alpha1.Finalizer), nil
}

const managedBy = "app.kubernetes.io/managed-by"

// isManaged reports whether the operator created the object.
func isManaged(object *v1alpha1.RetainedMediaAccount) bool {
	return object.Labels[managedBy] == "mediastack-operator"
}

func (r *Reconciler) create(ctx context.Context, row account.Retained) (*v1alpha1.RetainedMediaAccount, error) {
	object := &v1alpha1.RetainedMediaAccount{
		ObjectMeta: metav1.ObjectMeta{Name: row.ID.String(), Labels: map[string]string{managedBy: "mediastack-operator"}},
		Spec:       identity(row),
	}
	object.Spec.Reclaim = v1alpha1.ReclaimRetain
	if row.EraseAfter != nil {
		object.Spec.Reclaim = v1alpha1.ReclaimPurge
	}
	if err := r.deps.Client.Create(ctx, object); err != nil {
		return nil, err
	}
	if orphan, ok := r.orphans.LoadAndDelete(object.Name); ok {
		r.deps.Events.Eventf(object, nil, corev1.EventTypeWarning, "MediaAccountMissing", "RetainAccount",
			"MediaAccount %s/%s is gone without a deletion by the operator; its account was closed, and its media is retained",
			orphan.(account.Bound).Namespace, orphan.(account.Bound).Name)
	}
	return object, nil
}

// identity returns the part of the spec that is of the account.
func identity(row account.Retained) v1alpha1.RetainedMediaAccountSpec {
	return v1alpha1.RetainedMediaAccountSpec{
		AccountID: row.ID.String(), InstallationID: row.InstallationID.String(),
		AccountNamespace: row.Namespace, NamespaceUID: row.NamespaceUID, AccountName: row.Name,
		Bucket: row.Bucket, ClosedAt: metav1.NewMicroTime(*row.ClosedAt),
	}
}

// describes reports whether the object is of the account, and of its current closing.
func describes(object *v1alpha1.RetainedMediaAccount, row account.Retained) bool {
	want, got := identity(row), object.Spec
	same := got.ClosedAt.Time.Equal(want.ClosedAt.Time)
	got.ClosedAt, got.ClaimRef, got.Reclaim, got.ReserveName = want.ClosedAt, nil, "", nil
	return same && got == want
}

// remove deletes the object that was read, not a later one of the same name.
func (r *Reconciler) remove(ctx context.Context, object *v1alpha1.RetainedMediaAccount) error {
	err := r.deps.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// applyReclaim writes spec.reclaim to the database, and returns the account as it is then; nil
// if it is not retained any more, or was closed again.
func (r *Reconciler) applyReclaim(ctx context.Context, object *v1alpha1.RetainedMediaAccount, row account.Retained) (*account.Retained, error) {
	erase := object.Spec.Reclaim == v1alpha1.ReclaimPurge
	if erase == (row.EraseAfter != nil) || row.ErasingAt != nil {
		return &row, nil
	}
	if erase && object.Generation == 1 {
		return nil, r.keep(ctx, object)
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := r.deps.Accounts.SetErasure(ctx, row.Closing(), erase)
	if err != nil && !fault.Is(err, fault.Conflict) {
		return nil, ignoreNotFound(err)
	}
	now, err := r.deps.Accounts.Retained(ctx, row.ID)
	if err != nil || !now.Closing().Equal(row.Closing()) {
		return nil, ignoreNotFound(err)
	}
	return &now, nil
}

// keep sets spec.reclaim to Retain. The operator creates an object with Purge only if the database plans
// the deletion: this one was restored from a backup, in which a deletion was planned that has been
// cancelled since. Purge has to be set on the object that exists.
func (r *Reconciler) keep(ctx context.Context, object *v1alpha1.RetainedMediaAccount) error {
	before := object.DeepCopy()
	object.Spec.Reclaim = v1alpha1.ReclaimRetain
	err := r.deps.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return errChanged
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.deps.Events.Eventf(object, nil, corev1.EventTypeWarning, "PurgeNotPlanned", "RetainAccount",
		"the object was created with spec.reclaim Purge, but the deletion of the media is not planned: spec.reclaim was set to Retain")
	return nil
}

// ignoreNotFound returns nil for an account that is not retained any more: the event of its
// MediaAccount requests the next reconcile.
func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// report writes the status, if it differs.
func (r *Reconciler) report(ctx context.Context, object *v1alpha1.RetainedMediaAccount, row account.Retained, summary reconcile.Summary) error {
	run := reconcile.NewRun(r.deps.Deps, object)
	setStatus(&run.Object.Status, row)
	_, err := run.Report(ctx, statusOf, reconcile.Observation{Conditions: summary.Conditions(), GenerationObserved: true, Interval: time.Hour})
	if err == nil && run.StatusSkipped() {
		return errChanged
	}
	return err
}

// errChanged repeats the reconcile after changedDelay: the cache has the current object then.
var errChanged = errors.New("the object was changed meanwhile")

const changedDelay = 500 * time.Millisecond

var conditionTypes = reconcile.SummaryTypes()

func statusOf(object *v1alpha1.RetainedMediaAccount) reconcile.Status {
	return reconcile.Status{Conditions: &object.Status.Conditions, ObservedGeneration: &object.Status.ObservedGeneration, Types: conditionTypes, All: &object.Status}
}
