package mediaaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// cachedSecrets returns the account's Secrets that the cache holds, by name. They are compact, and must not
// be changed.
func (r *Reconciler) cachedSecrets(ctx context.Context, object *v1alpha1.MediaAccount) (map[string]*corev1.Secret, *reconcile.StepError) {
	list := &corev1.SecretList{}
	err := r.deps.Client.List(ctx, list, client.InNamespace(object.Namespace), client.MatchingFields{secretIndex: object.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, reconcile.NewAPIError(err, "list the account's Secrets")
	}
	byName := make(map[string]*corev1.Secret, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// readSecret reads the Secret from the API server; nil when there is none.
func (r *Reconciler) readSecret(ctx context.Context, want desiredSecret) (*corev1.Secret, *reconcile.StepError) {
	secret := &corev1.Secret{}
	err := r.deps.APIReader.Get(ctx, client.ObjectKey{Namespace: want.object.Namespace, Name: want.name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, reconcile.NewAPIError(err, "read Secret %s", want.name)
}

// writeSecret creates the Secret, or updates the one that was read, and returns it as it was
// written. It ends the run when the Secret changed meanwhile, or when the namespace is being
// deleted.
func (r *Reconciler) writeSecret(ctx context.Context, s *scope, want desiredSecret, existing *corev1.Secret, token account.KeySecret, key account.Key) (*corev1.Secret, *reconcile.StepError) {
	next := want.secret(existing, token.Reveal(), key)
	var err error
	switch {
	case existing == nil:
		err = r.deps.Client.Create(ctx, next)
	case existing.Immutable != nil && *existing.Immutable:
		next = want.secret(nil, token.Reveal(), key)
		if failure := r.prepareReplacement(ctx, next, key); failure != nil {
			return nil, failure
		}
		if err = r.deps.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion}); err == nil {
			err = r.deps.Client.Create(ctx, next)
		}
	default:
		err = r.deps.Client.Update(ctx, next)
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		s.SkipStatus()
		return nil, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		s.Conflicted()
		return nil, nil
	case err != nil:
		return nil, reconcile.NewAPIError(err, "write Secret %s", want.name)
	}
	return next, nil
}

// prepareReplacement checks that an immutable Secret can be replaced: it holds the only copy of
// the delivered key, and is deleted before the next one is created. A dry run of the creation
// passes admission and validation, and finds the name taken at last. The key's row remembers
// that the Secret is missing because of the replacement, in case it is interrupted.
func (r *Reconciler) prepareReplacement(ctx context.Context, next *corev1.Secret, key account.Key) *reconcile.StepError {
	err := r.deps.Client.Create(ctx, next.DeepCopy(), client.DryRunAll)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.NewAPIError(err, "replace immutable Secret %s", next.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return reconcile.NewError(reconcile.Database, r.deps.Accounts.MarkKeyReplacesSecret(ctx, key))
}

// removeSecret deletes a Secret as it was read if this object controls it, unless finalizers keep one that was deleted already. A request of a former
// leader that arrives late must not delete the Secret after it became that of the object's
// namesake. If the Secret changed since, the run ends and is repeated soon.
func (r *Reconciler) removeSecret(ctx context.Context, s *scope, secret *corev1.Secret) *reconcile.StepError {
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != s.Object.UID || !secret.DeletionTimestamp.IsZero() {
		return nil
	}
	err := r.deps.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if apierrors.IsConflict(err) {
		s.Conflicted()
		return nil
	}
	return reconcile.NewAPIError(client.IgnoreNotFound(err), "delete Secret %s", secret.Name)
}
