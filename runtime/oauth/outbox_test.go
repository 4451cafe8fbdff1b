package oauth_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestLeaseEmails_ReturnsEachEmailOncePerLease(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	first, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	second, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	if len(first) != 1 || len(second) != 0 || first[0].Attempts != 1 {
		t.Fatalf("leased %d and %d e-mails", len(first), len(second))
	}
	w.clock.Advance(2 * time.Minute) // the replica with the lease has crashed
	again, err := w.LeaseEmails(t.Context(), 10, time.Minute)
	must(t, err)
	if len(again) != 1 || again[0].Code != first[0].Code || again[0].Attempts != 2 {
		t.Fatalf("after the lease: %v", again)
	}
	must(t, w.NackEmail(t.Context(), again[0].ID, w.clock.Now().Add(5*time.Second)))
	w.clock.Advance(6 * time.Second)
	if again, err = w.LeaseEmails(t.Context(), 10, time.Minute); err != nil || len(again) != 1 {
		t.Fatalf("after the pause: %v %v", again, err)
	}
	w.clock.Advance(10 * time.Minute)
	if again, err = w.LeaseEmails(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("an e-mail whose code has expired: %v %v", again, err)
	}
	// An e-mail that was encrypted with another secret is dropped and delays no other e-mail.
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	cfg := oauth.Config{SessionTTL: time.Minute, CodeTTL: time.Minute, MaxAttempts: 1, CodesPerEmail: 1, AttemptsPerEmail: 1, CodesPerIP: 1, AuthorizationCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: time.Hour, RegistrationsPerIP: 1}
	if emails, err := w.service(t, cfg, "z").LeaseEmails(t.Context(), 10, time.Minute); err != nil || len(emails) != 0 {
		t.Errorf("another secret: %v %v", emails, err)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM email_outbox"); n != 0 {
		t.Errorf("%d e-mails remain", n)
	}
}

func TestSendCode_DeliversToOwnersOnly(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.account(t, "other", "bo@example.org")
	for _, email := range []string{"unknown@example.org", "xana@example.org", "ana@example.org.evil.test", "ana+1@example.org"} {
		must(t, w.startLogin(t, authorizationRequest()).sendCode(t, email))
	}
	if emails, err := w.LeaseEmails(t.Context(), 100, time.Minute); err != nil || len(emails) != 0 {
		t.Errorf("e-mails to addresses that own nothing: %v %v", emails, err)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM email_outbox"); n != 0 {
		t.Errorf("%d e-mails to addresses that own nothing remain", n)
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
