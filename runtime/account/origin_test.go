package account_test

import (
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
)

// The runtime ignored origins with a default port, with a port above 65535 and with a wildcard before an IP address, and
// nothing told the tenant.
func TestCheckOrigin_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for origin, says := range map[string]string{
		"https://app.example.org:443":               "it leaves the port 443 of https out: write https://app.example.org",
		"http://*.example.org:80":                   "it leaves the port 80 of http out: write http://*.example.org",
		"https://app.example.org:65536":             "ports are 1 to 65535, or * for all",
		"https://app.example.org:99999":             "ports are 1 to 65535, or * for all",
		"https://*.192.0.2.1":                       "has the wildcard before an IP address",
		"https://192.0.2.256":                       "must be an IPv4 address",
		"https://192.0.2.01":                        "must be an IPv4 address",
		"https://app.1":                             "must be an IPv4 address",
		"https://" + strings.Repeat("a", 64) + ".d": "each part has at most 63 characters",
		"https://xn--a.example.org":                 "must be the ASCII form",
		"https://*.co.uk:8080":                      "is every site below co.uk: name a domain of yours, such as https://*.example.co.uk:8080",
		"https://app.example.org/":                  "in lower case and without a path",
		"https://App.example.org":                   "in lower case and without a path",
		"https://":                                  "is no origin",
	} {
		if err := account.CheckOrigin(origin); err == nil || !strings.HasPrefix(err.Error(), origin+" ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, which does not say %q", origin, err, says)
		}
	}
	for _, origin := range []string{
		"https://app.example.org", "https://*.example.org", "https://app.example.org:80", "http://app.example.org:443", "http://localhost:*",
		"http://localhost:65535", "https://192.0.2.1:8443", "http://127.0.0.1:*", "https://com", "https://*.github.io", "https://xn--bcher-kva.example",
		"http://*.lan", "https://" + strings.Repeat("a", 63) + ".org", "chrome-extension://abcdefgh",
	} {
		if err := account.CheckOrigin(origin); err != nil {
			t.Errorf("%s: %v", origin, err)
		}
	}
}
