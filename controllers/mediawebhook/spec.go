package mediawebhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/webhook"
)

// checkScope stalls an object of all accounts outside of the operator's namespace.
func (r *Reconciler) checkScope(ctx context.Context, s *scope) bool {
	if s.Object.Spec.AllAccounts && s.Object.Namespace != r.config.OwnNamespace {
		s.observed.problem = problem{v1alpha1.ReasonInvalid, fmt.Sprintf("allAccounts is possible in the namespace %s of the operator only; use accountRef here", r.config.OwnNamespace)}
		r.remove(ctx, s)
		return false
	}
	return true
}

// checkTypes stalls the object for what the API server cannot check. What was stored before stays in effect while its account is there, so that
// is looked up before.
func (r *Reconciler) checkTypes(_ context.Context, s *scope) bool {
	for _, name := range s.Object.Spec.Types {
		if !journal.Type(name).Known() {
			s.observed.problem = problem{v1alpha1.ReasonInvalid, fmt.Sprintf("spec.types: there are no events of the type %s; the types are %s", name, typeNames())}
			return false
		}
	}
	return true
}

func typeNames() string {
	var names []string
	for _, known := range journal.Types() {
		names = append(names, string(known))
	}
	return strings.Join(names, ", ")
}

// resolveURL finds the URL, and shows its host.
func (r *Reconciler) resolveURL(ctx context.Context, s *scope) bool {
	text, field := s.Object.Spec.URL, "spec.url"
	if from := s.Object.Spec.URLFrom; from != nil {
		secret, found := r.tenantSecret(ctx, s, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
		if !found {
			return false
		}
		text, field = string(secret.Data[from.SecretKeyRef.Key]), fmt.Sprintf("the entry %s of Secret %s", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	}
	host, err := hostOf(text)
	if err != nil {
		s.observed.failure = invalid("%s is no URL that deliveries can be sent to: the URL %s", field, err)
		return false
	}
	s.target.URL, s.observed.host = text, host
	return true
}

// hostOf returns the host of a URL that deliveries can be sent to. The text is never part of a message: it may hold a token. A fragment has no
// meaning for a receiver, so it is a mistake.
func hostOf(text string) (string, error) {
	if strings.Contains(text, "#") {
		return "", errors.New("must not have a fragment")
	}
	target, err := webhook.ParseURL(text)
	if err != nil {
		return "", err
	}
	return target.Host, nil
}

// tenantSecret reads a Secret that the spec names, from the API server: the cache has only those of the operator. It is read again at
// the interval of the comparisons.
func (r *Reconciler) tenantSecret(ctx context.Context, s *scope, name, key string) (*corev1.Secret, bool) {
	s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(r.config.CompareInterval)))
	secret := &corev1.Secret{}
	err := r.deps.APIReader.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		s.observed.waiting = problem{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %s not found in this namespace", name)}
	case err != nil:
		s.observed.failure = reconcile.NewAPIError(err, "read Secret %s", name)
	case len(secret.Data[key]) == 0:
		s.observed.waiting = problem{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %s has no entry %s", name, key)}
	default:
		return secret, true
	}
	if s.observed.failure == nil {
		s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(min(accountRetry, r.config.CompareInterval))))
	}
	return nil, false
}

// invalid returns the failure for what a user has to correct outside of the object. It is checked again.
func invalid(format string, args ...any) *reconcile.StepError {
	return reconcile.NewError(reconcile.Kubernetes, fault.New(fault.Invalid, format, args...))
}
