package mediaaccount

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// ensureApps opens the Default App and the apps of the spec, and closes all other apps. Since that
// revokes their keys, the API server must have this very spec.
func (r *Reconciler) ensureApps(ctx context.Context, s *scope) bool {
	var failure *reconcile.StepError
	if s.assumed = len(s.keys.Apps) > 0; !s.assumed {
		failure = r.readState(ctx, s)
	}
	if failure == nil && !s.hasApps() {
		if failure = r.changeApps(ctx, s); failure == nil && !s.StatusSkipped() {
			failure = r.readState(ctx, s)
		}
	}
	if failure != nil || s.StatusSkipped() {
		s.observed.apps.failure = failure
		return false
	}
	s.apps = nil
	for _, app := range s.keys.Apps {
		s.apps = append(s.apps, app.App)
	}
	sortApps(s.apps)
	message := "The Default App is open"
	if more := len(s.apps) - 1; more > 0 {
		message = fmt.Sprintf("The Default App and %d more are open", more)
	}
	s.observed.apps = stepResult{ready: true, message: message}
	return true
}

// readState reads the account with its apps and their keys, also if those of a new account were assumed.
func (r *Reconciler) readState(ctx context.Context, s *scope) *reconcile.StepError {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	keys, err := r.deps.Accounts.Keys(ctx, s.account.ID)
	if err == nil {
		if known := r.proofKey.Load(); known == nil || *known != keys.ProofKey {
			r.proofKey.Store(new(keys.ProofKey))
		}
		if s.assumed && keys.ProofKey != s.keys.ProofKey {
			s.Conflicted() // the Secrets have proofs of another database, which the next run corrects
		}
	}
	s.keys, s.assumed = keys, false
	return reconcile.NewError(reconcile.Database, err)
}

// hasApps reports whether the apps of the spec are open, and no others.
func (s *scope) hasApps() bool {
	names := append([]string{account.DefaultApp}, appNames(s.Object)...)
	return len(s.keys.Apps) == len(names) && !slices.ContainsFunc(slices.Collect(maps.Values(s.keys.Apps)), func(app account.AppKeys) bool { return !slices.Contains(names, app.App.Name) })
}

func (r *Reconciler) changeApps(ctx context.Context, s *scope) *reconcile.StepError {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	_, others, err := r.deps.Accounts.OpenApps(ctx, s.account.ID, appNames(s.Object))
	if err == nil && len(others) > 0 {
		if failure := r.requireLive(ctx, s); failure != nil || s.StatusSkipped() {
			return failure
		}
		err = r.deps.Accounts.CloseApps(ctx, s.account.ID, others)
	}
	return reconcile.NewError(reconcile.Database, err)
}

// appNames returns the names of the apps of the spec, which the Default App is not among.
func appNames(object *v1alpha1.MediaAccount) []string {
	names := make([]string, 0, len(object.Spec.Apps))
	for _, app := range object.Spec.Apps {
		names = append(names, app.Name)
	}
	return names
}
