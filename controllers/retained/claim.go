package retained

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
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
