package mediaaccount

import (
	"context"
	"fmt"

	"mediastack.dev/controllers/reconcile"
)

// ensureApps opens the Default App and the apps of the spec, and closes all other apps.
func (r *Reconciler) ensureApps(ctx context.Context, s *scope) bool {
	names := make([]string, 0, len(s.Object.Spec.Apps))
	for _, app := range s.Object.Spec.Apps {
		names = append(names, app.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	apps, err := r.deps.Accounts.SetApps(ctx, s.account.ID, names)
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
