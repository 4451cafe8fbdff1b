package oauth_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

// The task expires with its code: a person does not get an e-mail with a code that is rejected.
func TestSendCode_AddsATaskThatExpiresWithTheCode(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	claim := func(at time.Time) work.Task {
		t.Helper()
		tasks, err := w.Store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: oauth.EmailWork, Limit: 10, Duration: time.Minute, Now: at})
		must(t, err)
		if len(tasks) != 1 {
			t.Fatalf("%d tasks", len(tasks))
		}
		return tasks[0]
	}
	if task := claim(w.clock.Now()); task.Expired {
		t.Error("a code that was just made has expired")
	}
	if task := claim(w.clock.Now().Add(defaults.CodeTTL - time.Second)); task.Expired {
		t.Error("it expires before the code")
	}
	if task := claim(w.clock.Now().Add(defaults.CodeTTL + time.Minute)); !task.Expired {
		t.Error("it outlives the code")
	}
}

// The runner would find the task only at its next check.
func TestSendCode_TellsTheRunner(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	told := 0
	w.EmailQueued = func() { told++ }
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	is(t, "no address", w.startLogin(t, authorizationRequest()).sendCode(t, "ana"), fault.Invalid)
	if told != 1 {
		t.Errorf("it was told of %d e-mails", told)
	}
}

// An e-mail that was encrypted with another secret can never be sent.
func TestOpenEmail_DropsWhatIsEncryptedWithAnotherSecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	cfg := oauth.Config{SessionTTL: time.Minute, CodeTTL: time.Minute, MaxAttempts: 1, CodesPerEmail: 1, AttemptsPerEmail: 1, CodesPerIP: 1, AuthorizationCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: time.Hour, RegistrationsPerIP: 1}
	if emails := w.Emails(t, w.service(t, cfg, "z"), w.clock.Now()); len(emails) != 0 {
		t.Errorf("another secret: %v", emails)
	}
}

func TestSendCode_DeliversToOwnersOnly(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.account(t, "other", "bo@example.org")
	for _, email := range []string{"unknown@example.org", "xana@example.org", "ana@example.org.evil.test", "ana+1@example.org"} {
		must(t, w.startLogin(t, authorizationRequest()).sendCode(t, email))
	}
	w.Counts(t, 4, "tasks: the login page tells addresses apart", "SELECT count(*) FROM work")
	if emails := w.Emails(t, w.Service, w.clock.Now()); len(emails) != 0 {
		t.Errorf("e-mails to addresses that own nothing: %v", emails)
	}
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, " ANA@example.org"))
	if codes := w.mailedCodes(t, owner); len(codes) != 1 {
		t.Errorf("%d codes", len(codes))
	}
	for _, text := range []string{"", "ana", "ana@", "@example.org", "Ana <ana@example.org>", "ana@example.org\r\nBcc: x@example.org", "a b@example.org", strings.Repeat("a", 250) + "@example.org"} {
		is(t, text, w.startLogin(t, authorizationRequest()).sendCode(t, text), fault.Invalid)
	}
	w.ensure(t, func(s *account.Spec) { s.Suspended = true })
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	if codes := w.mailedCodes(t, owner); len(codes) != 0 {
		t.Error("a code for the owner of a suspended account")
	}
}
