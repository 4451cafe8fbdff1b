package origin_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jub0bs/cors"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/origin"
)

var must = check.NoError

// http://*.com was accepted: every page of the web below com.
func TestPatterns_OfAWholeTopLevelDomainAreRejected(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"http://*.com", "https://*.com", "http://*.com:8080", "http://*.co.uk", "https://*.de:*"} {
		_, err := origin.New(origin.Config{Patterns: []string{"https://app.example.org", pattern}})
		if err == nil || !strings.Contains(err.Error(), pattern+" is every site below ") {
			t.Errorf("%s: %v", pattern, err)
		}
		policy, err := origin.New(origin.Config{Patterns: []string{"https://app.example.org"}, AccountLists: origin.AccountListsReplace})
		must(t, err)
		invalid, err := policy.SetAccountOrigins([]string{pattern, "https://shop.example.net"})
		if err != nil || len(invalid) != 1 || invalid[0] != pattern {
			t.Errorf("%s of an account: %v, %v", pattern, invalid, err)
		}
		site := strings.NewReplacer("*.", "evil.", ":*", "").Replace(pattern)
		if policy.Allows(site) || policy.CheckAccount([]string{pattern}, site) == nil || policy.CheckAccount([]string{pattern, "https://shop.example.net"}, "https://shop.example.net") != nil {
			t.Errorf("%s of an account decides about other origins", pattern)
		}
	}
	for _, pattern := range []string{"http://*.example.com", "https://*.github.io", "http://*.localhost", "http://*.internal:8080", "http://localhost:*", "*"} {
		if _, err := origin.New(origin.Config{Patterns: []string{pattern}}); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// schema is the rule of the definition of MediaAccount for an origin.
func schema(t testing.TB) *regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("../../../api/v1alpha1/mediaaccount_types.go")
	must(t, err)
	found := regexp.MustCompile(`self\.matches\('(\^https[^']*)'\)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the definition has no rule for origins")
	}
	return regexp.MustCompile(string(found[1]))
}

// The definition accepted origins that package cors does not, so the runtime ignored them while the MediaAccount was Ready.
// The operator's rule has to know each of them: of what the schema accepts, the runtime ignores nothing else.
func FuzzAccountOrigins_AreIgnoredByTheRuntimeOnlyIfTheOperatorSaysSo(f *testing.F) {
	rule := schema(f)
	for _, scheme := range []string{"http://", "https://", "http://*.", "https://*."} {
		for _, host := range []string{
			"app.example.org", "localhost", "com", "co.uk", "github.io", "lan", "192.0.2.1", "127.0.0.1", "192.0.2.256", "192.0.2.01", "1", "1.2.3", "a.1b", "a--b.example.org",
			"ab--c.example.org", "xn--a.example.org", "xn--bcher-kva.example", strings.Repeat("a", 63) + ".org", strings.Repeat("a", 64) + ".org", strings.Repeat("a.", 110) + "org",
		} {
			for _, port := range []string{"", ":*", ":1", ":80", ":443", ":8080", ":65535", ":65536", ":99999"} {
				if !rule.MatchString(scheme + host + port) {
					f.Fatalf("the schema does not accept %s", scheme+host+port)
				}
				f.Add(scheme + host + port)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 253 || !rule.MatchString(text) {
			return // the API server rejects it
		}
		policy, err := origin.New(origin.Config{AccountLists: origin.AccountListsReplace})
		must(t, err)
		ignored, err := policy.SetAccountOrigins([]string{text})
		if said := account.CheckOrigin(text); err != nil || (len(ignored) > 0) != (said != nil) {
			t.Errorf("%s: the runtime ignores %q (%v), the operator says %v", text, ignored, err, said)
		}
		_, alone := cors.NewMiddleware(cors.Config{Origins: []string{text}})
		if said := account.CheckOrigin(text); alone != nil && said == nil {
			t.Errorf("%s: package cors says %v, the operator nothing", text, alone)
		}
	})
}

func TestPatterns_OfTheInstallationThatNoBrowserSendsAreRejected(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		"https://app.example.org:443": "SERVICE_CORS_ORIGINS: https://app.example.org:443 is what no browser sends",
		"https://*.192.0.2.1":         "SERVICE_CORS_ORIGINS: https://*.192.0.2.1 has the wildcard before an IP address",
		"https://app.example.org/":    "SERVICE_CORS_ORIGINS: https://app.example.org/ is no origin: write one such as https://app.example.org",
		"app.example.org":             "SERVICE_CORS_ORIGINS: ",
		"http://[::1]:99999":          "SERVICE_CORS_ORIGINS: ",
	} {
		if _, err := origin.New(origin.Config{Patterns: []string{pattern}}); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if _, err := origin.New(origin.Config{Patterns: []string{"http://[::1]:3000", "chrome-extension://abcdefgh"}}); err != nil {
		t.Error(err)
	}
}
