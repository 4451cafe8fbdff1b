package mcp_test

import (
	"fmt"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
)

// The journal names who has changed settings with the tool: the key, or the application and the user who connected it.
func TestUpdateMediaSettings_IsAnEventOfTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.Journal = 24 * time.Hour })
	rt := w.replica(t)
	succeeded[any](t, rt.call(t, one.Key, "update_media_settings", object{"thumbnailWidth": 40}))
	token := w.Session(t, one, auth.ScopeWrite)
	if got := rt.callAs(t, "update_media_settings", object{"useWebP": true, "thumbnailWidth": 40}, bearer(token)); got.IsError {
		t.Errorf("a change with a login: %+v", got)
	}
	const told = `SELECT count(*) FROM journal WHERE type = 'settings.changed' AND account_id = $1 AND app_id IS NULL AND actor = $2 AND fields = $3`
	w.Counts(t, 2, "changes of settings", `SELECT count(*) FROM journal WHERE type = 'settings.changed'`)
	w.Counts(t, 1, "changes by the key", told, one.Account.ID, account.ActorOfKey(one.KeyID).Text(), []string{"thumbnailWidth"})
	w.Counts(t, 1, "changes by the login", `SELECT count(*) FROM journal, oauth_grant WHERE journal.type = 'settings.changed' AND journal.account_id = $1 AND app_id IS NULL
		AND actor = format($2, oauth_grant.id) AND fields = $3`, one.Account.ID, fmt.Sprintf(`{"kind":"login","id":"%%s","name":"test","email":%q}`, account.MaskEmail(runtimetest.Owner)), []string{"useWebP"})
}
