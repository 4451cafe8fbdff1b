package runtimetest

import (
	"testing"
	"time"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

// Emails ends the tasks to send e-mails that are due, as a worker does, and returns those that would have been sent, oldest first.
func (e *Env) Emails(t *testing.T, logins *oauth.Service, now time.Time) (emails []oauth.LoginEmail) {
	t.Helper()
	tasks, err := e.Store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: oauth.EmailWork, Limit: 1000, Duration: time.Minute, Now: now})
	must(t, err)
	for _, task := range tasks {
		email, wanted, err := logins.OpenEmail(t.Context(), task.Payload)
		must(t, err)
		if wanted && !task.Expired {
			emails = append(emails, email)
		}
		_, err = e.Store.Tasks.FinishTask(t.Context(), task)
		must(t, err)
	}
	return emails
}
