package oauth_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics_CountLoginsAndTokenRequests(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	registry := prometheus.NewPedanticRegistry()
	must(t, w.Register(registry))
	tokens := w.authorize(t)
	_, err := w.Refresh(t.Context(), tokens.Refresh, client, "", "")
	must(t, err)
	_, _ = w.Refresh(t.Context(), "unknown", client, "", "")
	b := w.startLogin(t, authorizationRequest())
	_ = b.sendCode(t, "no address")
	w.clock.Advance(time.Minute)
	must(t, b.sendCode(t, owner))
	_, _ = w.VerifyCode(t.Context(), b.session(t), wrong(w.mailedCodes(t, owner)[0]))
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			name := family.GetName()
			for _, label := range one.GetLabel() {
				name += " " + label.GetValue()
			}
			if count := one.GetCounter().GetValue(); count > 0 {
				got[name] = count
			}
		}
	}
	want := map[string]float64{
		"mediastack_login_codes_total ok": 2, "mediastack_login_codes_total invalid_email": 1,
		"mediastack_logins_total ok": 1, "mediastack_logins_total incorrect_code": 1, "mediastack_oauth_grants_total": 1,
		"mediastack_oauth_token_requests_total authorization_code ok": 1, "mediastack_oauth_token_requests_total refresh_token ok": 1,
		"mediastack_oauth_token_requests_total refresh_token rejected": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
