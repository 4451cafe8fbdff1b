package oauthhttp

import (
	"testing"
)

func TestConfig_RejectsInvalidEntries(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{AllowedRedirectURIs: []string{"https://app.test/"}}, {AllowedRedirectURIs: []string{"javascript:alert(1)"}}, {AllowedRedirectURIs: []string{"javascript://x/%0Aalert(1)"}}, {AllowedRedirectURIs: []string{"file://host/x"}}, {AllowedRedirectURIs: []string{"app"}},
		{AllowedRedirectURIs: []string{"app://x#y"}}, {TrustedHosts: []string{"https://claude.ai"}}, {TrustedHosts: []string{"*.claude.ai"}}, {TrustedHosts: []string{"Claude.ai"}}} {
		if cfg.Validate() == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
