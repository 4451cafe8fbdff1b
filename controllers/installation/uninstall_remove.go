package installation

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
)

// remove deletes the objects in three passes. The policy becomes Retain before the deletion, and
// an operator that runs sees both changes in this order. The pins and the webhooks are removed and the accounts are
// closed after the deletion, since an operator would write them again before it. Each pass has the settings and the
// webhooks before the accounts that they belong to.
func (u *Uninstall) remove(ctx context.Context, found *objects) error {
	all := [][]client.Object{found.belongings(), found.mediaAccounts()}
	for _, part := range all {
		if err := inParallel(ctx, u.out, "delete the objects", part, u.delete); err != nil {
			return err
		}
	}
	if u.store != nil {
		if err := u.removeRows(ctx, found); err != nil {
			return err
		}
	}
	for _, part := range all {
		if err := inParallel(ctx, u.out, "remove the finalizers", part, u.removeFinalizer); err != nil {
			return err
		}
	}
	return nil
}

// removeRows removes the pins and the webhooks of the objects from the database, and closes all accounts.
func (u *Uninstall) removeRows(ctx context.Context, found *objects) error {
	for i := range found.settings.Items {
		if err := u.store.Unpin(ctx, string(found.settings.Items[i].UID)); err != nil {
			return fmt.Errorf("remove the pins of MediaSettings %s: %w", client.ObjectKeyFromObject(&found.settings.Items[i]), err)
		}
	}
	for i := range found.webhooks.Items {
		if err := u.webhooks.RemoveWebhook(ctx, string(found.webhooks.Items[i].UID)); err != nil {
			return fmt.Errorf("remove the webhook of MediaWebhook %s: %w", client.ObjectKeyFromObject(&found.webhooks.Items[i]), err)
		}
	}
	var open []installation.OpenAccount
	if err := u.store.OpenAccounts(ctx, func(a installation.OpenAccount) error { open = append(open, a); return nil }); err != nil {
		return fmt.Errorf("list the open accounts: %w", err)
	}
	return inParallel(ctx, u.out, "close the accounts", open, func(ctx context.Context, a installation.OpenAccount) error {
		if _, err := u.accounts.Close(ctx, a.ID, account.CloseOptions{}); err != nil {
			return fmt.Errorf("close account %s of MediaAccount %s/%s: %w", a.ID, a.Namespace, a.Name, err)
		}
		return nil
	})
}

// belongings returns the settings and the webhooks.
func (o *objects) belongings() []client.Object {
	all := make([]client.Object, 0, len(o.settings.Items)+len(o.webhooks.Items))
	for i := range o.settings.Items {
		all = append(all, &o.settings.Items[i])
	}
	for i := range o.webhooks.Items {
		all = append(all, &o.webhooks.Items[i])
	}
	return all
}

func (o *objects) mediaAccounts() []client.Object {
	all := make([]client.Object, len(o.accounts.Items))
	for i := range o.accounts.Items {
		all[i] = &o.accounts.Items[i]
	}
	return all
}

// delete marks the object for deletion, but not another one that has its name meanwhile. The
// media of an account is retained, whatever its policy was.
func (u *Uninstall) delete(ctx context.Context, object client.Object) error {
	if a, ok := object.(*v1alpha1.MediaAccount); ok && a.Spec.DeletionPolicy == v1alpha1.DeletionDelete && a.DeletionTimestamp.IsZero() {
		base := a.DeepCopy()
		a.Spec.DeletionPolicy = v1alpha1.DeletionRetain
		if err := u.cluster.client.Patch(ctx, a, client.MergeFrom(base)); err != nil {
			return failed("retain the media of", object, err)
		}
	}
	uid := object.GetUID()
	return failed("delete", object, u.cluster.client.Delete(ctx, object, client.Preconditions{UID: &uid}))
}

// removeFinalizer removes this project's finalizer, unless the operator has done it meanwhile.
func (u *Uninstall) removeFinalizer(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	for range compareTries {
		err := u.cluster.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err != nil || object.GetUID() != uid {
			return failed("read", object, err)
		}
		patch := client.MergeFromWithOptions(object.DeepCopyObject().(client.Object), client.MergeFromWithOptimisticLock{})
		if !controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer) {
			return nil
		}
		if err := u.cluster.client.Patch(ctx, object, patch); !apierrors.IsConflict(err) {
			return failed("remove the finalizer of", object, err)
		}
	}
	return failed("remove the finalizer of", object, errors.New("it is changed all the time; run the command again"))
}

// failed returns an error that names what failed for the object, and nil if the object does not exist.
func failed(what string, object client.Object, err error) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, client.ObjectKeyFromObject(object), err)
}
