package retained

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

const (
	// claimIndex finds the RetainedMediaAccounts whose spec.claimRef names a MediaAccount.
	claimIndex = "claim"
	// nameIndex finds the RetainedMediaAccounts of a MediaAccount's namespace and name.
	nameIndex = "name"
)

// AddIndexes adds the indexes of FindBinding to the cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, keys := range map[string]func(*v1alpha1.RetainedMediaAccount) []types.NamespacedName{
		claimIndex: claimed, nameIndex: named,
	} {
		err := indexer.IndexField(ctx, &v1alpha1.RetainedMediaAccount{}, name, func(object client.Object) []string {
			var values []string
			for _, key := range keys(object.(*v1alpha1.RetainedMediaAccount)) {
				values = append(values, key.String())
			}
			return values
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claimed returns the MediaAccount that may take over the account.
func claimed(object *v1alpha1.RetainedMediaAccount) []types.NamespacedName {
	if object.Spec.ClaimRef == nil {
		return nil
	}
	return []types.NamespacedName{{Namespace: object.Spec.ClaimRef.Namespace, Name: cmp.Or(object.Spec.ClaimRef.Name, object.Spec.AccountName)}}
}

// named returns the MediaAccount that had the account.
func named(object *v1alpha1.RetainedMediaAccount) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: object.Spec.AccountNamespace, Name: object.Spec.AccountName}}
}

// Claimants returns the MediaAccounts that a change of the RetainedMediaAccount concerns.
func Claimants(object *v1alpha1.RetainedMediaAccount) []types.NamespacedName {
	return append(named(object), claimed(object)...)
}

// FindBinding returns what the RetainedMediaAccounts say about a MediaAccount without an
// account. reader is the cache.
func FindBinding(ctx context.Context, reader client.Reader, of *v1alpha1.MediaAccount) (account.Binding, error) {
	key := client.ObjectKeyFromObject(of)
	binding := account.Binding{RestoreFrom: of.Spec.RestoreFrom}
	list := &v1alpha1.RetainedMediaAccountList{}
	if err := reader.List(ctx, list, client.MatchingFields{claimIndex: key.String()}); err != nil {
		return account.Binding{}, err
	}
	for i := range list.Items {
		if closing, ok := closingOf(&list.Items[i]); ok {
			binding.Granted = append(binding.Granted, closing)
		}
	}
	if err := reader.List(ctx, list, client.MatchingFields{nameIndex: key.String()}); err != nil {
		return account.Binding{}, err
	}
	for i := range list.Items {
		object := &list.Items[i]
		reserved := object.Spec.ReserveName == nil || *object.Spec.ReserveName
		forAnother := object.Spec.ClaimRef != nil && claimed(object)[0] != key
		if closing, ok := closingOf(object); ok && (!reserved || forAnother) {
			binding.Released = append(binding.Released, closing)
		}
	}
	return binding, nil
}

// closingOf returns the closing that the object describes, and reports whether its ids are valid.
func closingOf(object *v1alpha1.RetainedMediaAccount) (account.Closing, bool) {
	installation, err1 := uuid.Parse(object.Spec.InstallationID)
	id, err2 := uuid.Parse(object.Spec.AccountID)
	return account.Closing{InstallationID: installation, AccountID: id, ClosedAt: object.Spec.ClosedAt.Time}, err1 == nil && err2 == nil
}

// removeUsedClaim removes spec.claimRef when the MediaAccount that it names has another account,
// and reports whether it did. Otherwise that MediaAccount, deleted and applied again later, would
// take over this account instead of the one that it had.
func (r *Reconciler) removeUsedClaim(ctx context.Context, object *v1alpha1.RetainedMediaAccount) (bool, error) {
	if object.Spec.ClaimRef == nil {
		return false, nil
	}
	key := claimed(object)[0]
	claimant := &v1alpha1.MediaAccount{}
	if err := r.deps.Client.Get(ctx, key, claimant); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	finding, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	bound, err := r.deps.Accounts.Find(finding, key.Namespace, key.Name)
	if fault.Is(err, fault.NotFound) || err == nil && bound.ObjectUID != string(claimant.UID) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	before := object.DeepCopy()
	object.Spec.ClaimRef = nil
	err = r.deps.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return false, errChanged
	}
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	r.deps.Events.Eventf(object, nil, corev1.EventTypeNormal, "ClaimRemoved", "RemoveClaim",
		"spec.claimRef was removed: MediaAccount %s has account %s", key, bound.ID)
	return true, nil
}
