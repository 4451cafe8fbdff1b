package oauth_test

import (
	"strings"
	"testing"

	"mediastack.dev/runtime/oauth"
)

func TestMaskEmail_HidesTheLocalPart(t *testing.T) {
	t.Parallel()
	for email, want := range map[string]string{
		"ana@example.org":                       "a***@example.org",
		"a@example.org":                         "a***@example.org",
		"élodie@example.org":                    "é***@example.org",
		`"ana@home"@example.org`:                `"***@example.org`,
		"ana@" + strings.Repeat("long.", 60):    "***",
		"ana@example.org\r\nBcc: x@example.org": "a***@example.org",
		"ana@exam\nple.org":                     "***",
		"\nana@example.org":                     "***",
		"\xffana@example.org":                   "***",
		"ana@":                                  "***",
		"@example.org":                          "***",
		"ana":                                   "***",
		"":                                      "***",
	} {
		if got := oauth.MaskEmail(email); got != want {
			t.Errorf("%q is masked as %q, want %q", email, got, want)
		}
	}
}
