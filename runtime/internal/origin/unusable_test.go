package origin_test

import (
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/origin"
)

// https://app.example.org:443 was accepted, the account was Ready, and the pages of https://app.example.org were answered 403. The
// operator must reject what the runtime ignores, and nothing else.
func TestPatterns_TheOperatorRejectsWhatTheRuntimeIgnores(t *testing.T) {
	t.Parallel()
	usable := []string{
		"https://app.example.org", "https://*.example.org", "http://localhost:*", "http://*.localhost", "https://app.example.org:80", "http://app.example.org:443", "https://app.example.org:65535",
		"https://192.0.2.1", "http://192.0.2.1:8443", "https://xn--bcher-kva.example", "https://a--b.example", "http://*.lan", "https://" + strings.Repeat("a", 63) + ".example", "https://1a.example", "http://127.0.0.1:*",
	}
	unusable := []string{
		"https://app.example.org:443", "http://app.example.org:80", "https://*.example.org:443", "https://app.example.org:65536", "https://app.example.org:99999", "http://*.192.0.2.1", "https://1", "http://192.0.2",
		"http://256.1.1.1", "http://192.0.2.04", "http://0x7f.1", "http://a.0x7f", "https://xn--a.example", "https://ab--cd.example", "https://" + strings.Repeat("a", 64) + ".example", "https://*." + strings.Repeat("a", 64) + ".example",
	}
	schema := regexp.MustCompile(`^https?://([*][.])?[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:([*]|[1-9][0-9]{0,4}))?$`)
	for _, pattern := range append(usable, unusable...) {
		if !schema.MatchString(pattern) {
			t.Errorf("%s does not have the form of the schema", pattern)
		}
		_, err := origin.New(origin.Config{Patterns: []string{pattern}})
		if advice := account.UnusableOrigin(pattern); (err == nil) != (advice == "") {
			t.Errorf("%s: the runtime says %v, and the operator %q", pattern, err, advice)
		}
	}
	for _, pattern := range unusable {
		if account.UnusableOrigin(pattern) == "" {
			t.Errorf("%s is accepted", pattern)
		}
	}
}

func FuzzUnusableOrigin(f *testing.F) {
	schema := regexp.MustCompile(`^https?://([*][.])?[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:([*]|[1-9][0-9]{0,4}))?$`)
	for _, seed := range []string{"https://app.example.org:443", "http://*.192.0.2.1", "https://xn--a.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if len(pattern) > 253 || !schema.MatchString(pattern) {
			return
		}
		if _, whole := account.WholeSuffix(pattern); whole {
			return
		}
		_, err := origin.New(origin.Config{Patterns: []string{pattern}})
		if advice := account.UnusableOrigin(pattern); (err == nil) != (advice == "") {
			t.Errorf("%s: the runtime says %v, and the operator %q", pattern, err, advice)
		}
	})
}
