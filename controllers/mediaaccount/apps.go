package mediaaccount

import (
	"context"
	"fmt"

	"mediastack.dev/controllers/status"
)

// ensureApps opens the Default App and the apps of the spec, and closes all others.
func (r *Reconciler) ensureApps(ctx context.Context, run *run) bool {
	names := make([]string, 0, len(run.object.Spec.Apps))
	for _, app := range run.object.Spec.Apps {
		names = append(names, app.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	apps, err := r.accounts.SetApps(ctx, run.account.ID, names)
	if err != nil {
		run.seen.apps.failure = status.Fail(status.Database, err)
		return false
	}
	sortApps(apps)
	run.apps = apps
	message := "The Default App is open"
	if more := len(apps) - 1; more > 0 {
		message = fmt.Sprintf("The Default App and %d more are open", more)
	}
	run.seen.apps = part{done: true, message: message}
	return true
}
