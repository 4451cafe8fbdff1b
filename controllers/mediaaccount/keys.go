package mediaaccount

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// ensureKeys provides every app with a Secret that holds a valid key, and deletes the
// Secrets of apps that were removed. PostgreSQL stores hashes only: a key that no Secret
// holds cannot be read again, so a new key replaces it.
func (r *Reconciler) ensureKeys(ctx context.Context, s *scope) bool {
	dbctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	ring, err := r.deps.Accounts.Keys(dbctx, s.account.ID)
	if err != nil {
		s.observed.keys.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	secrets, failure := r.cachedSecrets(ctx, s.Object)
	if failure != nil {
		s.observed.keys.failure = failure
		return true
	}
	var keys []v1alpha1.KeyStatus
	for _, app := range s.apps {
		want := r.desiredSecret(s, app)
		valid, failure := r.ensureKey(ctx, s, want, secrets[want.name], ring.Apps[app.ID].Valid)
		if s.StatusSkipped() {
			return false
		}
		if failure != nil && !s.observed.keys.failure.Stalls() {
			s.observed.keys.failure = failure
		}
		if failure == nil {
			keys = append(keys, r.keyStatus(s, want, valid))
		}
		delete(secrets, want.name)
	}
	for _, secret := range secrets {
		if failure := r.removeSecret(ctx, s.Object, secret); failure != nil && s.observed.keys.failure == nil {
			s.observed.keys.failure = failure
		}
	}
	s.Object.Status.Keys = keys
	if s.observed.keys.failure == nil {
		s.observed.keys = stepResult{ready: true, message: fmt.Sprintf("%d of %d Secrets hold a valid key", len(keys), len(s.apps))}
	}
	return true
}

// ensureKey makes one app's Secret and key match want and returns the keys that are valid
// then, the current one first. The cache may be behind the API server, so that every action
// is planned again from the Secret as the API server has it.
func (r *Reconciler) ensureKey(ctx context.Context, s *scope, want desiredSecret, cached *corev1.Secret, keys []account.Key) ([]account.Key, *reconcile.StepError) {
	if planSecret(want, cached, keys).action == actionNone {
		return keys, nil
	}
	existing, failure := r.readSecret(ctx, want)
	if failure != nil {
		return nil, failure
	}
	plan := planSecret(want, existing, keys)
	switch plan.action {
	case actionNone:
		return keys, nil
	case actionReject:
		return nil, reconcile.NewError(reconcile.Kubernetes, fault.New(fault.Conflict,
			"Secret %s does not belong to this account; delete or rename it, so that the operator can create the Secret of app %s", want.name, want.app.Name))
	case actionUpdate:
		return keys, r.writeSecret(ctx, s, want, existing, string(existing.Data[v1alpha1.SecretAPIKey]))
	}
	if existing == nil {
		terminating, failure := r.namespaceTerminating(ctx, s)
		if terminating {
			s.SkipStatus()
		}
		if terminating || failure != nil {
			return nil, failure
		}
	}
	return r.issueKey(ctx, s, want, existing, keys, plan)
}

// issueKey issues a key and writes it into the Secret. The key's row is written first: after a
// crash in between, the Secret does not hold the current key, and the next reconcile issues
// another.
func (r *Reconciler) issueKey(ctx context.Context, s *scope, want desiredSecret, existing *corev1.Secret, keys []account.Key, plan secretPlan) ([]account.Key, *reconcile.StepError) {
	dbctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	token, key, err := r.deps.Accounts.IssueKey(dbctx, want.app.ID, want.generation, plan.overlap)
	if err != nil {
		return nil, reconcile.NewError(reconcile.Database, err)
	}
	if failure := r.writeSecret(ctx, s, want, existing, token.Reveal()); failure != nil || s.StatusSkipped() {
		return nil, failure
	}
	message := fmt.Sprintf("Secret %s holds a new key for app %s (%s)", want.name, want.app.Name, plan.reason)
	if plan.overlap > 0 {
		message += fmt.Sprintf("; the previous key stays valid for %s", plan.overlap)
	}
	r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeNormal, plan.event, "IssueKey", "%s", message)
	return append([]account.Key{key}, limitToOverlap(keys, key.CreatedAt, plan.overlap)...), nil
}

// limitToOverlap returns the keys that are still valid after another was issued at now: they
// expire after overlap at the latest.
func limitToOverlap(keys []account.Key, now time.Time, overlap time.Duration) []account.Key {
	var valid []account.Key
	for _, key := range keys {
		end := now.Add(overlap)
		if key.ExpiresAt == nil || key.ExpiresAt.After(end) {
			key.ExpiresAt = &end
		}
		if key.ExpiresAt.After(now) {
			valid = append(valid, key)
		}
	}
	return valid
}

// keyStatus returns the status of an app's keys, and requests a reconcile for the time at
// which an older key expires.
func (r *Reconciler) keyStatus(s *scope, want desiredSecret, keys []account.Key) v1alpha1.KeyStatus {
	current := keys[0]
	created := metav1.NewTime(current.CreatedAt)
	status := v1alpha1.KeyStatus{
		App: want.app.Name, SecretName: want.name, Generation: current.Generation, CreatedAt: &created,
	}
	for _, older := range keys[1:] {
		if older.ExpiresAt == nil {
			continue
		}
		s.RequeueBy(older.ExpiresAt.Add(time.Second))
		if status.PreviousExpiresAt == nil || older.ExpiresAt.After(status.PreviousExpiresAt.Time) {
			expires := metav1.NewTime(*older.ExpiresAt)
			status.PreviousExpiresAt = &expires
		}
	}
	status.LastUsedAt = r.lastUsed(s, status, current)
	return status
}

// lastUsed returns when the key was last used, as of the last usage measurement, so that an
// active tenant does not cause a status write in every reconcile.
func (r *Reconciler) lastUsed(s *scope, status v1alpha1.KeyStatus, current account.Key) *metav1.Time {
	if r.usageIsDue(s) {
		if current.LastUsedAt == nil {
			return nil
		}
		used := metav1.NewTime(*current.LastUsedAt)
		return &used
	}
	for _, before := range s.Original.Status.Keys {
		if before.App == status.App && before.CreatedAt != nil && before.CreatedAt.Unix() == status.CreatedAt.Unix() {
			return before.LastUsedAt
		}
	}
	return nil
}

// cachedSecrets returns the account's Secrets that the cache holds, by name.
func (r *Reconciler) cachedSecrets(ctx context.Context, object *v1alpha1.MediaAccount) (map[string]*corev1.Secret, *reconcile.StepError) {
	list := &corev1.SecretList{}
	err := r.deps.Client.List(ctx, list, client.InNamespace(object.Namespace), client.MatchingLabels{v1alpha1.LabelAccount: object.Name})
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

// writeSecret creates the Secret, or updates the one that was read. It ends the run when the
// Secret changed meanwhile, or when the namespace is being deleted.
func (r *Reconciler) writeSecret(ctx context.Context, s *scope, want desiredSecret, existing *corev1.Secret, key string) *reconcile.StepError {
	var err error
	next := want.secret(existing, key)
	switch {
	case existing == nil:
		err = r.deps.Client.Create(ctx, next)
	case existing.Immutable != nil && *existing.Immutable:
		if err = r.deps.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion}); err == nil {
			err = r.deps.Client.Create(ctx, want.secret(nil, key))
		}
	default:
		err = r.deps.Client.Update(ctx, next)
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		s.SkipStatus()
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		s.Conflicted()
		return nil
	}
	return reconcile.NewAPIError(err, "write Secret %s", want.name)
}

// removeSecret deletes a Secret if this object controls it.
func (r *Reconciler) removeSecret(ctx context.Context, object *v1alpha1.MediaAccount, secret *corev1.Secret) *reconcile.StepError {
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != object.UID {
		return nil
	}
	err := r.deps.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
	if apierrors.IsConflict(err) {
		return nil // replaced by another Secret of that name; the next reconcile checks its owner
	}
	return reconcile.NewAPIError(client.IgnoreNotFound(err), "delete Secret %s", secret.Name)
}

// sortApps sorts the apps by name, so that the status does not depend on the order of rows.
func sortApps(apps []account.App) {
	slices.SortFunc(apps, func(a, b account.App) int { return strings.Compare(a.Name, b.Name) })
}
