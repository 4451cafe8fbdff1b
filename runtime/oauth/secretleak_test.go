package oauth_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

func TestStore_ContainsNoSecretInPlainText(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	b := w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	tasks, err := w.Store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: oauth.EmailWork, Limit: 1, Duration: time.Minute, Now: w.clock.Now()})
	must(t, err)
	email, wanted, err := w.OpenEmail(t.Context(), tasks[0].Payload)
	if must(t, err); !wanted {
		t.Fatal("the e-mail is not sent")
	}
	b.cookie, err = w.VerifyCode(t.Context(), b.session(t), email.Code)
	must(t, err)
	code, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID)
	must(t, err)
	tokens, err := w.ExchangeCode(t.Context(), tokenRequest(code))
	must(t, err)
	for name, secret := range map[string]string{"code": email.Code, "cookie": b.cookie, "authorization code": code, "access token": tokens.Access, "refresh token": tokens.Refresh} {
		for _, table := range []string{"login_session", "oauth_grant", "oauth_code", "oauth_token", "work"} {
			found := w.QueryInt(t, "SELECT count(*) FROM "+table+" x WHERE x::text LIKE '%' || $1 || '%' OR x::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'", secret)
			if name == "code" && table != "work" {
				continue // eight digits stand in many a hash
			}
			if found != 0 {
				t.Errorf("the %s can be read in %s", name, table)
			}
		}
		if strings.Contains(w.logs.String(), secret) {
			t.Errorf("the %s is in the log", name)
		}
	}
	if strings.Contains(w.logs.String(), owner) || !strings.Contains(w.logs.String(), "a***@example.org") {
		t.Errorf("addresses in the log: %s", w.logs.String())
	}
}
