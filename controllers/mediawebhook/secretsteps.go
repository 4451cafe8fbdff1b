package mediawebhook

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/webhook"
)

// resolveSecrets finds the secrets that sign: those of the tenant's Secret, or of the one that the operator makes.
func (r *Reconciler) resolveSecrets(ctx context.Context, s *scope) bool {
	if ref := s.Object.Spec.Secret.SecretRef; ref != nil {
		return r.readSecrets(ctx, s, *ref)
	}
	return r.ensureSecret(ctx, s)
}

// readSecrets reads the tenant's Secret. An entry previous signs, too, while it is there.
func (r *Reconciler) readSecrets(ctx context.Context, s *scope, ref v1alpha1.WebhookSecretReference) bool {
	key := ref.Key
	if key == "" { // the schema has a default
		key = v1alpha1.SecretWebhook
	}
	secret, found := r.tenantSecret(ctx, s, ref.Name, key)
	if !found {
		return false
	}
	entries := []string{key}
	if _, rotates := secret.Data[v1alpha1.SecretWebhookPrevious]; rotates && key != v1alpha1.SecretWebhookPrevious {
		entries = append(entries, v1alpha1.SecretWebhookPrevious)
	}
	for _, entry := range entries {
		raw, valid := parseSecret(string(secret.Data[entry]))
		if !valid {
			s.observed.failure = invalid("the entry %s of Secret %s must be whsec_ and the base64 of %d to %d bytes, without a line break", entry, ref.Name, minSecretSize, maxSecretSize)
			return false
		}
		s.target.Secrets = append(s.target.Secrets, webhook.Secret{Key: raw})
	}
	s.observed.secretName = ref.Name
	return true
}

// ensureSecret makes the Secret hold what it should, and asks for the next reconcile at the end of the overlap. A secret is written before
// anything is signed with it.
func (r *Reconciler) ensureSecret(ctx context.Context, s *scope) bool {
	name := v1alpha1.WebhookSecretName(s.Object.Name)
	existing, failure := r.readSecret(ctx, s, name)
	if failure != nil {
		s.observed.failure = failure
		return false
	}
	if existing != nil && !owns(s.Object, existing) {
		s.observed.failure = reconcile.NewError(reconcile.Kubernetes, fault.New(fault.Conflict,
			"Secret %s does not belong to this MediaWebhook; delete or rename it, so that the operator can create it, or name another one in spec.secret.secretRef", name))
		return false
	}
	overlap := defaultOverlap
	if s.Object.Spec.Secret.Overlap != nil {
		overlap = s.Object.Spec.Secret.Overlap.Duration
	}
	generation := max(s.Object.Spec.Secret.Generation, 1) // the schema has a default
	next := stateOf(existing, generation).next(generation, overlap, r.deps.Now(), newSecret)
	if failure := r.writeSecret(ctx, s, existing, desired(s.Object, existing, next)); failure != nil || s.StatusSkipped() {
		s.observed.failure = failure
		return false
	}
	if !next.until.IsZero() {
		s.RequeueBy(next.until)
	}
	s.target.Secrets, s.observed.secretName = next.keys(), name
	return true
}

// readSecret reads a Secret from the API server; nil when there is none.
func (r *Reconciler) readSecret(ctx context.Context, s *scope, name string) (*corev1.Secret, *reconcile.StepError) {
	secret := &corev1.Secret{}
	err := r.deps.APIReader.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, reconcile.NewAPIError(err, "read Secret %s", name)
}

// writeSecret creates the Secret, or updates the one that was read if it differs. It ends the run when the Secret changed meanwhile, or when
// the namespace is being deleted.
func (r *Reconciler) writeSecret(ctx context.Context, s *scope, existing, next *corev1.Secret) *reconcile.StepError {
	var err error
	switch {
	case existing == nil:
		err = r.deps.Client.Create(ctx, next)
	case reflect.DeepEqual(existing, next):
		return nil
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
	return reconcile.NewAPIError(err, "write Secret %s", next.Name)
}

// removeSecret deletes the Secret of the operator's making, as it was read, if this object controls it: another one of the same name gets a
// secret of its own.
func (r *Reconciler) removeSecret(ctx context.Context, s *scope) bool {
	secret, failure := r.readSecret(ctx, s, v1alpha1.WebhookSecretName(s.Object.Name))
	if failure != nil || secret == nil || !secret.DeletionTimestamp.IsZero() {
		s.observed.failure = failure
		return failure == nil
	}
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != s.Object.UID {
		return true
	}
	err := r.deps.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if apierrors.IsConflict(err) {
		s.Conflicted()
		return false
	}
	s.observed.failure = reconcile.NewAPIError(client.IgnoreNotFound(err), "delete Secret %s", secret.Name)
	return s.observed.failure == nil
}

// secretText says which Secret signs.
func secretText(name string) string { return fmt.Sprintf("Secret %s signs its deliveries", name) }
