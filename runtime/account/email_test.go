package account

import (
	"net/mail"
	"strings"
	"testing"
)

func TestParseEmail_ReturnsCanonicalForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ana@example.org":                           "ana@example.org",
		"Ana.Maria@EXAMPLE.org":                     "ana.maria@example.org",
		"o'brien@example.org":                       "o'brien@example.org",
		"!#$%&'*+-/=?^_`{|}~@example.org":           "!#$%&'*+-/=?^_`{|}~@example.org",
		"ana@XN--BCHER-KVA.example":                 "ana@xn--bcher-kva.example",
		"ana@bücher.example":                        "ana@xn--bcher-kva.example",
		"Ana@BÜCHER.example":                        "ana@xn--bcher-kva.example",
		"ana@bu\u0308cher.example":                  "ana@xn--bcher-kva.example", // decomposed
		strings.Repeat("a", 242) + "@example.org":   strings.Repeat("a", 242) + "@example.org",
		"a@" + strings.Repeat("b", 63) + ".example": "a@" + strings.Repeat("b", 63) + ".example",
	} {
		got, ok := ParseEmail(text)
		if !ok || got != want {
			t.Errorf("%q: got %q, %t, want %q", text, got, ok, want)
		}
		// Messages are sent to owners, so net/mail must accept the address.
		if parsed, err := mail.ParseAddress(got); err != nil || parsed.Address != got {
			t.Errorf("net/mail reads %q as %v: %v", got, parsed, err)
		}
		if again, ok := ParseEmail(got); !ok || again != got {
			t.Errorf("the canonical form %q becomes %q, %t", got, again, ok)
		}
	}
}

func TestParseEmail_RejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "ana", "ana@", "@example.org", "ana@localhost", "ana@example", "ana@@example.org", "ana@example.org@example.org",
		".ana@example.org", "ana.@example.org", "ana..b@example.org", "ana@.example.org", "ana@example.org.", "ana@-example.org", "ana@example-.org",
		"ana@exa_mple.org", "ana@[127.0.0.1]", `"ana"@example.org`, "ana b@example.org", " ana@example.org", "ana@example.org\n", "ana\x00@example.org",
		"Ana <ana@example.org>", "ana(x)@example.org", "ana,bo@example.org", "änne@example.org", "\u212aim@example.org", "ana@b\xffcher.example", "ana@bü cher.example",
		strings.Repeat("a", 243) + "@example.org", "a@" + strings.Repeat("b", 64) + ".example", strings.Repeat("a", 240) + "@bücher.ex",
	} {
		if got, ok := ParseEmail(text); ok || got != "" {
			t.Errorf("%q is accepted as %q", text, got)
		}
	}
}
