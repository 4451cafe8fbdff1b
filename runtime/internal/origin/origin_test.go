package origin_test

import (
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/origin"
)

// http://*.com was accepted: every page of the web below com.
func TestPatterns_OfAWholeTopLevelDomainAreRejected(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"http://*.com", "https://*.com", "http://*.com:8080", "http://*.co.uk", "https://*.de:*"} {
		_, err := origin.New(origin.Config{Patterns: []string{"https://app.example.org", pattern}})
		if err == nil || !strings.Contains(err.Error(), pattern+" is every site below ") {
			t.Errorf("%s: %v", pattern, err)
		}
		policy, err := origin.New(origin.Config{Patterns: []string{"https://app.example.org"}, AccountLists: origin.AccountListsReplace})
		if err != nil {
			t.Fatal(err)
		}
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
