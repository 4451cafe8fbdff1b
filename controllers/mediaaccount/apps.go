package mediaaccount

import (
	"context"
	"fmt"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// ensureApps opens the Default App and the apps of the spec, and closes all other apps. Since that
// revokes their keys, the API server must have this very spec.
func (r *Reconciler) ensureApps(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	apps, others, err := r.deps.Accounts.OpenApps(ctx, s.account.ID, appNames(s.Object))
	if err == nil && len(others) > 0 {
		if failure := r.requireLive(ctx, s); failure != nil || s.StatusSkipped() {
			s.observed.apps.failure = failure
			return false
		}
		err = r.deps.Accounts.CloseApps(ctx, s.account.ID, others)
	}
	if err != nil {
		s.observed.apps.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	sortApps(apps)
	s.apps = apps
	message := "The Default App is open"
	if more := len(apps) - 1; more > 0 {
		message = fmt.Sprintf("The Default App and %d more are open", more)
	}
	s.observed.apps = stepResult{ready: true, message: message}
	return true
}

// appNames returns the names of the apps of the spec, which the Default App is not among.
func appNames(object *v1alpha1.MediaAccount) []string {
	names := make([]string, 0, len(object.Spec.Apps))
	for _, app := range object.Spec.Apps {
		names = append(names, app.Name)
	}
	return names
}
