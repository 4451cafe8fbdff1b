package mediaaccount

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// ensureKeys provides every app with a valid key in a Secret, and removes the Secrets of
// apps that are no longer. PostgreSQL knows the hashes, a Secret alone the key: what
// no Secret carries can't be given again, so a new key takes its place.
func (r *Reconciler) ensureKeys(ctx context.Context, run *run) bool {
	dbctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	all, err := r.accounts.Keys(dbctx, run.account.ID)
	if err != nil {
		run.seen.keys.failure = status.Fail(status.Database, err)
		return false
	}
	byApp := map[uuid.UUID][]account.Key{}
	for _, key := range all {
		byApp[key.AppID] = append(byApp[key.AppID], key)
	}
	secrets, failure := r.cachedSecrets(ctx, run.object)
	if failure != nil {
		run.seen.keys.failure = failure
		return true
	}
	var keys []v1alpha1.KeyStatus
	for _, app := range run.apps {
		want := r.wanted(run, app)
		valid, failure := r.ensureKey(ctx, run, want, secrets[want.name], byApp[app.ID])
		if run.over {
			return false
		}
		if failure != nil && !run.seen.keys.failure.Stalls() {
			run.seen.keys.failure = failure
		}
		if failure == nil {
			keys = append(keys, r.keyStatus(run, want, valid))
		}
		delete(secrets, want.name)
	}
	for _, secret := range secrets {
		if failure := r.removeSecret(ctx, run.object, secret); failure != nil && run.seen.keys.failure == nil {
			run.seen.keys.failure = failure
		}
	}
	run.object.Status.Keys = keys
	if run.seen.keys.failure == nil {
		run.seen.keys = part{done: true, message: fmt.Sprintf("%d of %d Secrets carry a valid key", len(keys), len(run.apps))}
	}
	return true
}

// ensureKey brings one app's Secret and key to what is wanted and gives the keys
// that are valid then, the current one first. The cache may lag behind, so it is
// believed only when it shows nothing to do.
func (r *Reconciler) ensureKey(ctx context.Context, run *run, want wanted, cached *corev1.Secret, keys []account.Key) ([]account.Key, *status.Failure) {
	if decide(want, cached, keys).action == keep {
		return keys, nil
	}
	have, failure := r.readSecret(ctx, want)
	if failure != nil {
		return nil, failure
	}
	choice := decide(want, have, keys)
	switch choice.action {
	case keep:
		return keys, nil
	case refuse:
		return nil, status.Fail(status.Kubernetes, fault.New(fault.Conflict,
			"Secret %s is not this account's: remove or rename it, so that the key of app %s has its place", want.name, want.app.Name))
	case mend:
		return keys, r.writeSecret(ctx, run, want, have, string(have.Data[v1alpha1.SecretAPIKey]))
	}
	if have == nil {
		ending, failure := r.namespaceEnds(ctx, run)
		if ending || failure != nil {
			run.over = ending
			return nil, failure
		}
	}
	return r.issue(ctx, run, want, have, keys, choice)
}

// issue makes a key and writes it into the Secret. The row comes first: after a
// crash in between the Secret does not hold the current key, and the next reconcile
// makes another.
func (r *Reconciler) issue(ctx context.Context, run *run, want wanted, have *corev1.Secret, keys []account.Key, choice decision) ([]account.Key, *status.Failure) {
	dbctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	token, key, err := r.accounts.IssueKey(dbctx, want.app.ID, want.generation, choice.overlap)
	if err != nil {
		return nil, status.Fail(status.Database, err)
	}
	if failure := r.writeSecret(ctx, run, want, have, token.Reveal()); failure != nil || run.over {
		return nil, failure
	}
	note := fmt.Sprintf("Secret %s carries a new key for app %s (%s)", want.name, want.app.Name, choice.why)
	if choice.overlap > 0 {
		note += fmt.Sprintf("; the old one is valid for %s more", choice.overlap)
	}
	r.events.Eventf(run.object, nil, corev1.EventTypeNormal, choice.event, "IssueKey", "%s", note)
	return append([]account.Key{key}, shorten(keys, key.CreatedAt, choice.overlap)...), nil
}

// shorten returns the keys that are still valid after another was issued at now.
func shorten(keys []account.Key, now time.Time, overlap time.Duration) []account.Key {
	var left []account.Key
	for _, key := range keys {
		end := now.Add(overlap)
		if key.ExpiresAt == nil || key.ExpiresAt.After(end) {
			key.ExpiresAt = &end
		}
		if key.ExpiresAt.After(now) {
			left = append(left, key)
		}
	}
	return left
}

// keyStatus describes the keys of an app, and sees that the end of an older one is
// noticed when it comes.
func (r *Reconciler) keyStatus(run *run, want wanted, keys []account.Key) v1alpha1.KeyStatus {
	current := keys[0]
	created := metav1.NewTime(current.CreatedAt)
	shown := v1alpha1.KeyStatus{
		App: want.app.Name, SecretName: want.name, Generation: current.Generation, CreatedAt: &created,
	}
	for _, older := range keys[1:] {
		if older.ExpiresAt == nil {
			continue
		}
		run.lookAgain(older.ExpiresAt.Add(time.Second))
		if shown.PreviousExpiresAt == nil || older.ExpiresAt.After(shown.PreviousExpiresAt.Time) {
			ends := metav1.NewTime(*older.ExpiresAt)
			shown.PreviousExpiresAt = &ends
		}
	}
	shown.LastUsedAt = r.lastUsed(run, shown, current)
	return shown
}

// lastUsed is when the key was last used, as of the last refresh of the usage: a busy
// tenant must not cause a write at every look.
func (r *Reconciler) lastUsed(run *run, shown v1alpha1.KeyStatus, current account.Key) *metav1.Time {
	if r.usageIsDue(run) {
		if current.LastUsedAt == nil {
			return nil
		}
		used := metav1.NewTime(*current.LastUsedAt)
		return &used
	}
	for _, before := range run.before.Status.Keys {
		if before.App == shown.App && before.CreatedAt != nil && before.CreatedAt.Unix() == shown.CreatedAt.Unix() {
			return before.LastUsedAt
		}
	}
	return nil
}

// cachedSecrets returns the account's Secrets that the cache knows, by name.
func (r *Reconciler) cachedSecrets(ctx context.Context, object *v1alpha1.MediaAccount) (map[string]*corev1.Secret, *status.Failure) {
	list := &corev1.SecretList{}
	err := r.client.List(ctx, list, client.InNamespace(object.Namespace), client.MatchingLabels{v1alpha1.LabelAccount: object.Name})
	if err != nil {
		return nil, status.FailKubernetes(err, "list the account's Secrets")
	}
	byName := make(map[string]*corev1.Secret, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// readSecret reads past the cache; nil when there is none.
func (r *Reconciler) readSecret(ctx context.Context, want wanted) (*corev1.Secret, *status.Failure) {
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: want.object.Namespace, Name: want.name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, status.FailKubernetes(err, "read Secret %s", want.name)
}

// writeSecret makes the Secret, or changes the one that was read. It ends the run
// when the Secret changed meanwhile, or when nothing can be made here any more.
func (r *Reconciler) writeSecret(ctx context.Context, run *run, want wanted, have *corev1.Secret, key string) *status.Failure {
	var err error
	next := want.secret(have, key)
	switch {
	case have == nil:
		err = r.client.Create(ctx, next)
	case have.Immutable != nil && *have.Immutable:
		if err = r.client.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}); err == nil {
			err = r.client.Create(ctx, want.secret(nil, key))
		}
	default:
		err = r.client.Update(ctx, next)
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		run.over = true
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		run.over = true
		run.lookAgain(r.now().Add(status.Jitter(again)))
		return nil
	}
	return status.FailKubernetes(err, "write Secret %s", want.name)
}

// removeSecret removes a Secret that this very object controls, and no other.
func (r *Reconciler) removeSecret(ctx context.Context, object *v1alpha1.MediaAccount, secret *corev1.Secret) *status.Failure {
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != object.UID {
		return nil
	}
	err := r.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
	if apierrors.IsConflict(err) {
		return nil // another one of that name by now: the next look tells whose
	}
	return status.FailKubernetes(client.IgnoreNotFound(err), "remove Secret %s", secret.Name)
}

// sortApps puts the apps in the order of their names, so that the status has one form.
func sortApps(apps []account.App) {
	slices.SortFunc(apps, func(a, b account.App) int { return strings.Compare(a.Name, b.Name) })
}
