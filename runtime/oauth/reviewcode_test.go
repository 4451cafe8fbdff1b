package oauth_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

// reviewed returns a service with a fixed code for the account of ana, and the code.
func reviewed(t *testing.T, of string) (*env, string) {
	t.Helper()
	code, entry, err := oauth.NewReviewCode(of, owner)
	must(t, err)
	return newEnv(t, func(c *oauth.Config) { c.ReviewLogins = []string{entry} }), code
}

// accountOf returns the name of the account of ana as a configuration has it.
func accountOf(w *env) string { return oauth.NamespacedName(w.tenant.Account) }

func TestReviewCode_OpensItsAccount(t *testing.T) {
	t.Parallel()
	name := accountOf(newEnv(t))
	w, code := reviewed(t, name)
	if !w.HasReviewCode(name) || w.HasReviewCode("other/account") {
		t.Error("the account has no fixed code")
	}
	for range 2 { // it does not expire with its use
		b := w.startLogin(t, authorizationRequest())
		must(t, b.sendCode(t, owner))
		cookie, err := w.VerifyCode(t.Context(), b.session(t), code[:8]+" "+code[8:])
		must(t, err)
		b.cookie = cookie
		if _, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID); err != nil {
			t.Error(err)
		}
	}
	// The code of the e-mail works as before.
	w.startLogin(t, authorizationRequest()).mailedCode(t)
}

// mailedCode logs in with the newest code that was mailed.
func (b *loginBrowser) mailedCode(t *testing.T) {
	t.Helper()
	b.w.mailedCodes(t, owner)
	b.logIn(t, owner)
}

func TestReviewCode_OpensNothingElse(t *testing.T) {
	t.Parallel()
	name := accountOf(newEnv(t))
	for what, tt := range map[string]struct {
		account string // of the entry
		email   string
		change  func(*testing.T, *env)
	}{
		"another account of the entry": {account: "other/account", email: owner},
		"another address":              {account: name, email: "bo@example.org"},
		"an address that owns nothing": {account: name, email: "eve@example.org"},
		"a second account":             {account: name, email: owner, change: func(t *testing.T, w *env) { t.Helper(); w.account(t, "second", owner) }},
		"an owner who was removed": {account: name, email: owner, change: func(t *testing.T, w *env) {
			t.Helper()
			w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
		}},
		"an account that is suspended": {account: name, email: owner, change: func(t *testing.T, w *env) { t.Helper(); w.ensure(t, func(s *account.Spec) { s.Suspended = true }) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, code := reviewed(t, tt.account)
			w.account(t, "of-bo", "bo@example.org")
			if tt.change != nil {
				tt.change(t, w)
			}
			b := w.startLogin(t, authorizationRequest())
			must(t, b.sendCode(t, tt.email))
			_, err := w.VerifyCode(t.Context(), b.session(t), code)
			is(t, "the fixed code", err, fault.Invalid)
			if b.session(t).LoggedIn() {
				t.Error("the session is logged in")
			}
		})
	}
}

// A fixed code has the limits of others: five tries in a login, and fifteen an hour besides the first ones of logins.
func TestReviewCode_IsRateLimited(t *testing.T) {
	t.Parallel()
	name := accountOf(newEnv(t))
	w, code := reviewed(t, name)
	other := strings.Repeat("1", oauth.ReviewCodeDigits)
	for range 3 {
		b := w.startLogin(t, authorizationRequest())
		must(t, b.sendCode(t, owner))
		for n := range 5 {
			_, err := w.VerifyCode(t.Context(), b.session(t), other)
			if n < 4 {
				is(t, "a wrong code", err, fault.Invalid)
			} else {
				is(t, "the fifth", err, fault.NotFound)
			}
		}
		_, err := w.VerifyCode(t.Context(), b.session(t), code)
		is(t, "the right one after five", err, fault.NotFound)
	}
	b := w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	for range 4 { // with those of the other logins, fifteen are not the first ones
		_, err := w.VerifyCode(t.Context(), b.session(t), other)
		is(t, "a wrong code", err, fault.Invalid)
	}
	_, err := w.VerifyCode(t.Context(), b.session(t), code)
	is(t, "the right one after fifteen", err, fault.Busy)
	w.clock.Advance(time.Hour)
	b = w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	_, err = w.VerifyCode(t.Context(), b.session(t), code)
	must(t, err)
}

// Without an entry there is no fixed code, and 16 digits are none.
func TestReviewCode_IsOffByDefault(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	if w.HasReviewCodes() {
		t.Error("there are fixed codes")
	}
	b := w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	_, err := w.VerifyCode(t.Context(), b.session(t), strings.Repeat("1", oauth.ReviewCodeDigits))
	is(t, "16 digits", err, fault.Invalid)
	if attempts := b.session(t).Attempts; attempts != 0 {
		t.Errorf("it counts as %d attempts", attempts)
	}
}

func TestReviewCode_EntriesAreChecked(t *testing.T) {
	t.Parallel()
	_, good, err := oauth.NewReviewCode("team-a/demo", "Ana@example.org")
	must(t, err)
	_, same, err := oauth.NewReviewCode("team-a/other", "ana@example.org")
	must(t, err)
	parts := strings.Split(good, ":")
	entry := func(at int, text string) string {
		changed := append([]string(nil), parts...)
		changed[at] = text
		return strings.Join(changed, ":")
	}
	cfg := defaults
	cfg.ReviewLogins = []string{good, ""}
	must(t, cfg.Validate())
	for name, entries := range map[string][]string{
		"a code":                 {"1234567812345678"},
		"no account":             {entry(0, "demo")},
		"no address":             {entry(1, "ana")},
		"an address in capitals": {entry(1, "Ana@example.org")},
		"few iterations":         {entry(2, "1000")},
		"a short salt":           {entry(3, "YQ")},
		"a short hash":           {entry(4, "YQ")},
		"two of an address":      {good, same},
	} {
		cfg.ReviewLogins = entries
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), "SERVICE_REVIEW_LOGINS") || strings.Contains(err.Error(), parts[4]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
